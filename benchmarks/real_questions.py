"""Sixty questions in six languages for `real.py`: every other one asks for points, the rest for something else."""

from __future__ import annotations

from dataclasses import dataclass

_QUESTIONS = {
    "en": (
        "What are the advantages of travelling by train?",
        "Which ocean lies between Africa and Australia?",
        "Give me five tips for a first garden.",
        "Write a Python function that counts the vowels of a word.",
        "What should I think about before I adopt a dog?",
        "How do I change the tyre of a car, step by step?",
        "Name four ways to use less water at home.",
        "Tell a short story about a lighthouse keeper.",
        "What are the main causes of traffic jams in cities?",
        "Why is the sea salty? Answer in two sentences.",
    ),
    "de": (
        "Was spricht dafür, jeden Tag zu Fuß zur Arbeit zu gehen?",
        "Wie heißt der längste Fluss Europas?",
        "Nenne fünf Tipps gegen Schlafstörungen.",
        "Schreibe eine Python-Funktion, die eine Liste umdreht.",
        "Worauf sollte man beim Kauf eines gebrauchten Autos achten?",
        "Wie koche ich ein weiches Ei, Schritt für Schritt?",
        "Welche Vorteile hat ein Garten in der Stadt?",
        "Erzähle eine kurze Geschichte von einem alten Leuchtturm.",
        "Nenne vier Gründe, ein Instrument zu lernen.",
        "Warum ist der Himmel am Abend rot? Antworte in zwei Sätzen.",
    ),
    "fr": (
        "Quels sont les avantages d'une bibliothèque dans un village ?",
        "Quelle est la capitale du Portugal ?",
        "Donne cinq conseils pour bien préparer un voyage.",
        "Écris une fonction Python qui calcule la moyenne d'une liste.",
        "À quoi faut-il penser avant de louer un appartement ?",
        "Comment fait-on une pâte à crêpes, étape par étape ?",
        "Cite quatre façons d'économiser l'électricité à la maison.",
        "Raconte une courte histoire sur un boulanger et son chat.",
        "Quelles sont les causes principales du bruit dans les villes ?",
        "Pourquoi les feuilles tombent-elles en automne ? Réponds en deux phrases.",
    ),
    "es": (
        "¿Cuáles son las ventajas de aprender un segundo idioma?",
        "¿Qué océano separa España de México?",
        "Dame cinco consejos para ahorrar dinero cada mes.",
        "Escribe una función de Python que diga si un número es primo.",
        "¿Qué hay que tener en cuenta antes de correr una maratón?",
        "¿Cómo se prepara una tortilla de patatas, paso a paso?",
        "Nombra cuatro maneras de cuidar los ojos.",
        "Cuenta una historia corta sobre un pescador y su hija.",
        "¿Cuáles son las causas principales del estrés en el trabajo?",
        "¿Por qué flota el hielo en el agua? Responde en dos frases.",
    ),
    "it": (
        "Quali sono i vantaggi di una dieta varia?",
        "Qual è la montagna più alta d'Italia?",
        "Dammi cinque consigli per parlare in pubblico.",
        "Scrivi una funzione Python che ordina le parole di una frase.",
        "A che cosa bisogna pensare prima di comprare una casa?",
        "Come si prepara il risotto, passo dopo passo?",
        "Elenca quattro modi per ridurre i rifiuti in cucina.",
        "Racconta una breve storia di un orologiaio e del suo apprendista.",
        "Quali sono le cause principali degli incendi nei boschi?",
        "Perché la luna cambia forma? Rispondi in due frasi.",
    ),
    "pt": (
        "Quais são as vantagens de morar perto do mar?",
        "Qual é o maior país da América do Sul?",
        "Dê cinco dicas para estudar melhor para uma prova.",
        "Escreva uma função em Python que some os números de uma lista.",
        "O que devo considerar antes de mudar de emprego?",
        "Como se faz um bolo de laranja, passo a passo?",
        "Cite quatro formas de proteger os rios.",
        "Conte uma história curta sobre um carteiro e um papagaio.",
        "Quais são as causas principais da falta de sono?",
        "Por que o ferro enferruja? Responda em duas frases.",
    ),
}
LANGUAGES = tuple(_QUESTIONS)


@dataclass(frozen=True)
class Asked:
    """A question, its language, and whether it asks for points."""

    question: str
    language: str
    points: bool


HELD_OUT = tuple(
    Asked(question, "en", points=True)
    for question in (
        "What are the benefits of reading books?",
        "Give me four tips for giving a good speech.",
        "What should I check before I rent a flat?",
        "Name five ways to make friends in a new town.",
        "What are the main causes of air pollution?",
    )
)
"""Questions that ask for points, on which nothing was tuned."""


def questions(languages: tuple[str, ...] = LANGUAGES) -> list[Asked]:
    """The questions of these languages, one language after the other."""
    return [
        Asked(question, language, points=number % 2 == 0)
        for language in languages
        for number, question in enumerate(_QUESTIONS[language])
    ]
