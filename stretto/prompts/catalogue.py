"""Prompt templates by family, version and name; a folder of the user overrides those of the package.

A template is a text file: a line with its purpose, then parts headed ``--- system ---`` or ``--- user ---``. ``$name``
is a placeholder (`string.Template`): values are never parsed as templates, and braces in JSON need no escaping.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template as _Text
from typing import cast

from stretto.foundation.arguments import safe_repr
from stretto.values.errors import SettingsError, UnknownPromptError
from stretto.values.request import Message, Role

_PART = re.compile(r"^--- (system|user|assistant) ---\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(?:\w+|\{\w+\}|\$)")
GENERAL = "general"
SMALL = "small"  # models of up to about two billion parameters, which imitate examples instead of following rules
POCKET = "pocket"  # the embedded model, which was trained on exactly these texts


SMALL_BELOW = 2_000_000_000
"""The number of parameters below which a model gets the prompts of ``small``."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,2})?) ?([mb])(?![a-z0-9])")
_UNIT = {"m": 1_000_000, "b": 1_000_000_000}


@dataclass(frozen=True)
class Template:
    """One prompt template.

    Attributes:
        family: the family of models that it is for.
        version: the version of the prompts.
        name: the name that strategies use.
        purpose: the purpose of the call, in one line.
        text: the messages with their placeholders, as in the file.
        source: the file.
    """

    family: str
    version: str
    name: str
    purpose: str
    text: str
    source: str

    @cached_property
    def parts(self) -> tuple[tuple[Role, _Text], ...]:
        """Role and text of each message, in order."""
        pieces = _PART.split(self.text)
        roles = cast("list[Role]", pieces[1::2])
        return tuple((role, _Text(body.strip("\n"))) for role, body in zip(roles, pieces[2::2], strict=True))

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Names of the template's placeholders."""
        return tuple(dict.fromkeys(name for _, text in self.parts for name in text.get_identifiers()))

    @cached_property
    def wordings(self) -> tuple[str, ...]:
        """The pieces of its text between the placeholders."""
        return tuple(piece for _, text in self.parts for piece in _PLACEHOLDER.split(text.template) if piece.strip())

    def messages(self, **values: str) -> tuple[Message, ...]:
        """Fill in the values. Parts that end up empty are left out. Raises `UnknownPromptError`."""
        try:
            filled = [(role, _squeezed(text, values).substitute(values).strip("\n")) for role, text in self.parts]
        except (KeyError, ValueError) as error:
            raise UnknownPromptError(
                f"The prompt {self.family}/{self.version}/{self.name} ({self.source}) cannot be filled: {error}. "
                f"It may use {', '.join('$' + name for name in sorted(values))}; a plain dollar sign is written $$."
            ) from None
        return tuple(Message(role=role, content=content) for role, content in filled if content)


def _squeezed(text: _Text, values: Mapping[str, str]) -> _Text:
    """Remove the blank lines that empty values would leave in a template; blank lines within values are kept."""
    empty = [name for name in text.get_identifiers() if values.get(name) == ""]
    if not empty:
        return text
    names = "|".join(map(re.escape, empty))
    kept = re.sub(rf"(?<!\$)\$(?:(?:{names})\b|\{{(?:{names})\}})", "", text.template)
    return _Text(re.sub(r"\n{3,}", "\n\n", kept).strip("\n"))


class Catalogue:
    """All templates. A family that lacks a template uses that of ``general``."""

    def __init__(self, overrides: Path | str | None = None) -> None:
        self._folders: list[Path | Traversable] = [files("stretto.prompts").joinpath("templates")]
        if overrides is not None:
            folder = Path(overrides).expanduser()
            if not folder.is_dir():
                raise SettingsError(
                    f"The prompts folder {safe_repr(str(folder))} does not exist. "
                    "Make it, with files such as general/v1/skeleton.md in it."
                )
            self._folders.append(folder)

    def __iter__(self) -> Iterator[Template]:
        return iter(self._templates.values())

    def get(self, name: str, family: str = GENERAL, version: str | None = None) -> Template:
        """Return a template by name for a family (else for ``general``), in the latest version by default."""
        for candidate in dict.fromkeys((family, GENERAL)):
            versions = [
                template
                for (of, at, known), template in self._templates.items()
                if of == candidate and known == name and version in (None, at)
            ]
            if versions:
                return max(versions, key=lambda template: _age(template.version))
        known = ", ".join(sorted({f"{t.family}/{t.version}/{t.name}" for t in self}))
        raise UnknownPromptError(f"There is no prompt {name!r} for the family {family!r}. Known: {known}.")

    @cached_property
    def overrides(self) -> str:
        """A fingerprint of the texts that override the library's; empty without any."""
        own = "".join(each.text for each in self if any(each.source.startswith(str(at)) for at in self._folders[1:]))
        return hashlib.sha256(own.encode()).hexdigest()[:16] if own else ""

    def check_family(self, family: str) -> None:
        """Raise `SettingsError` for a family without templates."""
        known = sorted({family for family, _, _ in self._templates})
        if family not in known:
            raise SettingsError(
                f"prompt_family={safe_repr(family)} cannot be used: there are {', '.join(known)}. "
                "A folder of that name in templates= would make it one."
            )

    @cached_property
    def _templates(self) -> dict[tuple[str, str, str], Template]:
        found = {}
        for folder in self._folders:
            for family in _folders(folder):
                for version in _folders(family):
                    for file in sorted(version.iterdir(), key=lambda entry: entry.name):
                        if file.name.endswith(".md"):
                            template = _read(family.name, version.name, file)
                            found[template.family, template.version, template.name] = template
        return dict(sorted(found.items()))


def _folders(folder: Path | Traversable) -> list[Path | Traversable]:
    return sorted((entry for entry in folder.iterdir() if entry.is_dir()), key=lambda entry: entry.name)


def _read(family: str, version: str, file: Path | Traversable) -> Template:
    text = file.read_text(encoding="utf-8")
    purpose = _PART.split(text)[0].strip()
    if not _PART.search(text):
        raise SettingsError(f"The prompt file {file} has no part. Add a line '--- user ---' above its text.")
    return Template(family, version, file.name.removesuffix(".md"), purpose, text, str(file))


def _age(version: str) -> tuple[int, str]:
    digits = re.sub(r"\D", "", version)
    return (int(digits or 0), version)


def parameters_in(name: str) -> int | None:
    """Parse a model's number of parameters from its name, as in "SmolLM2-135M-Instruct"; ``None`` if missing."""
    name = re.sub(r"[-_/:]", " ", name[:200].casefold())
    sizes = [float(number) * _UNIT[unit] for number, unit in _SIZE.findall(name)]
    return int(max(sizes)) if sizes else None


def family_of(name: str = "", parameters: int | None = None) -> str:
    """Return the prompt family for a model of this name or size; ``general`` if the size is unknown."""
    size = parameters or parameters_in(name)
    return SMALL if size is not None and size < SMALL_BELOW else GENERAL


def family_for(own: str, named: str | None) -> str:
    """Return the prompt family of a model: the one ``named`` or measured for it, else its ``own``."""
    return own if named is None or own == POCKET else named  # pocket was trained on its own prompts
