"""Prompts that no model was trained on, by what a router is to see in them."""

HOW_TO_SETS = """\
How can I sleep better?
How do I keep my house cool in summer?
How do I look after a bicycle?
How can I spend less at the supermarket?
How do I keep my desk tidy?
How do I make my hair grow faster?
How can we make our street friendlier to children?
How do I stay calm in traffic?
How do I take care of a wool jumper?
how can i concentrate when the office is loud
How could a small library draw more visitors?
How do I keep foxes away from my hens?
How do I get better at drawing faces?
How can I be kinder to myself?""".splitlines()

HOW_TO_SEQUENCES = """\
How do I change a tyre?
How do I install Linux beside Windows?
How do I bake bread?
How do I replace a light switch?
How do I make strawberry jam?
How do I unclog a toilet with a plunger?
How do I reset a forgotten Windows password?
How do I crochet a granny square?
How do I solve a Rubik's cube?
How do I mount a TV on a brick wall?
how do i upgrade debian 11 to debian 12
How do I make mayonnaise by hand?
How do I renew my passport online?
How do I sharpen a kitchen knife on a whetstone?""".splitlines()

DEPENDENT_TAILS = """\
Give me 5 tips and explain why the third is best
Give me five tips for better coffee, then rank them.
Suggest six board games for adults and say which you would choose.
List three ways to heat a house and compare the last two.
Name four causes of the fall of Carthage and draw a conclusion.
Tell me four reasons to keep a diary and explain why the first one is the weakest.
Name five vegetables for a small garden and rank them from easiest to hardest.
Give me three plans for the weekend, then pick the best one and justify it.
List five inventions of the Romans and decide which of them changed daily life most.
What are three arguments for zoos, and which one is the strongest?
Describe three careers in law and conclude which suits an introvert.
Suggest four names for a podcast on gardening and tell me which you would choose.
Nenne fünf Tipps und erkläre, warum der dritte der beste ist.
Donne-moi cinq conseils pour courir, puis classe-les.
Dame cinco consejos y explica por qué el tercero es el mejor.""".splitlines()

INDEPENDENT_LISTS = """\
Give me five tips for saving money, each with an example.
Give me 5 tips for better coffee and explain each one.
Suggest six board games for adults and describe what makes each fun.
List three ways to heat a house with their costs.
Name four causes of the fall of Carthage and explain every cause.
Tell me four reasons to keep a diary, with a short explanation for each.
Name five vegetables for a small garden and say when to sow each of them.
What are three arguments for zoos, and what do critics reply to each?
Describe three careers in law, each in a paragraph.
Give me seven ideas for a school fair and add what each would need.
List the benefits of cold showers and explain how they come about.""".splitlines()

POINTS = {
    "Chinese": """\
给我五个改善记忆力的建议
请列出七个骑自行车上班的好处。
如何让自己每天早起？
搬到大城市生活有什么利弊？
海洋污染的原因有哪些？
介绍一下唐代的诗歌、绘画和音乐。
新手养鱼要注意什么？
给我６条旅行省钱的技巧
如果没有了货币，社会会怎样？
说说三种减肥方法，并解释每种方法的原理。""",
    "Japanese": """\
記憶力を高める5つのヒントを教えて
自転車通勤の良い点を7つ挙げてください。
朝早く起きるにはどうすればいいですか？
都会に住むメリットとデメリットを教えてください。
海が汚れる原因は何ですか？
奈良時代の文化と政治について説明してください。
金魚を飼うときの注意点は何ですか？
旅行の費用を抑えるコツを６つ教えてください。
もしお金がなくなったら社会はどうなりますか？
ダイエットの方法を三つ、それぞれの特徴と一緒に紹介してください。""",
    "Arabic": """\
أعطني خمس نصائح لتقوية الذاكرة
اذكر ٧ فوائد لركوب الدراجة.
كيف أستيقظ مبكرا كل يوم؟
ما مزايا وعيوب العيش في المدن الكبرى؟
ما أسباب تلوث البحار؟
تحدث عن الفن والعلوم والتجارة في الأندلس.
كيف أعتني بالأسماك في المنزل؟
أريد ست أفكار لرحلة عائلية قليلة التكلفة.
ماذا سيحدث لو اختفت النقود؟
اشرح ثلاث طرق لتخفيف الوزن مع ذكر فوائد كل طريقة.""",
    "Hindi": """\
याददाश्त बढ़ाने के लिए पाँच सुझाव दीजिए
साइकिल चलाने के ७ फायदे बताइए।
रोज़ सुबह जल्दी कैसे उठें?
बड़े शहर में रहने के फायदे और नुकसान क्या हैं?
समुद्र के प्रदूषण के क्या कारण हैं?
गुप्त काल की कला, विज्ञान और व्यापार के बारे में बताइए।
घर में मछलियों की देखभाल कैसे करें?
सस्ती यात्रा के लिए छह तरीके बताओ।
अगर पैसा न हो तो समाज कैसा होगा?
वज़न घटाने के तीन उपाय समझाइए और हर एक का लाभ बताइए।""",
    "Russian": """\
Дай пять советов, как улучшить память
Назови семь преимуществ езды на велосипеде.
Как приучить себя рано вставать?
Какие плюсы и минусы у жизни в мегаполисе?
Отчего загрязняется океан? Перечисли причины.
Расскажи об искусстве, торговле и быте древнего Новгорода.
Как ухаживать за аквариумными рыбками?
Подскажи 6 способов сэкономить в путешествии.
Что будет с обществом, если исчезнут деньги?
Опиши три метода похудения и пользу каждого из них.""",
    "Turkish": """\
Hafızayı güçlendirmek için beş ipucu ver
Bisiklete binmenin yedi faydasını say.
Her sabah erken kalkmayı nasıl başarabilirim?
Büyük şehirde yaşamanın artıları ve eksileri nelerdir?
Denizlerin kirlenmesinin nedenleri nelerdir?
Selçuklu döneminde sanat, bilim ve ticareti anlat.
Akvaryum balıklarına nasıl bakılır?
Ucuz seyahat için 6 öneri yazar mısın?
Para diye bir şey olmasaydı toplum nasıl olurdu?
Kilo vermenin üç yöntemini ve her birinin yararını açıkla.""",
}

NOT_POINTS = {
    "Chinese": """\
写一首关于大海的诗。
编一个关于勇敢小兔子的故事。
怎么换汽车轮胎？
麻婆豆腐的做法
小明有24个苹果，吃了三分之一，又买了5个，现在有几个？
用Python写一个判断回文的函数。
长江有多长？
把这句话翻译成英文：我明天不去学校，因为我感冒了。
给我五个建议，并解释为什么第三个最好
列出四个度假城市，然后按价格排序。""",
    "Japanese": """\
海についての詩を書いてください。
勇敢なうさぎの物語を作ってください。
車のタイヤの交換手順を教えてください。
親子丼の作り方は？
太郎は24個の飴を持っていて、3分の1を食べ、5個買いました。今いくつですか？
Pythonで回文を判定する関数を書いてください。
信濃川の長さは何キロですか？
次の文を英語に訳してください：明日は風邪なので学校に行きません。
ヒントを5つ挙げて、その中から一番よいものを選び、理由を述べてください。
休暇にいい町を4つ挙げて、値段の順位をつけてください。""",
    "Arabic": """\
اكتب قصيدة عن الصحراء.
اكتب قصة عن أرنب شجاع.
كيف أغير مصباح السيارة؟
ما طريقة عمل الكنافة؟
مع أحمد ٢٤ تفاحة، أكل ثلثها ثم اشترى ٥، كم تفاحة معه الآن؟
اكتب دالة بلغة بايثون تتحقق من أن الكلمة متناظرة.
كم يبلغ طول نهر النيل؟
ترجم إلى الإنجليزية: لن أذهب غدا إلى المدرسة لأنني مريض.
أعطني خمس نصائح واشرح لماذا الثالثة أفضلها
اذكر أربع مدن للعطلة ثم رتبها حسب السعر.""",
    "Hindi": """\
समुद्र पर एक कविता लिखिए।
एक बहादुर खरगोश की कहानी लिखो।
मोबाइल की स्क्रीन कैसे बदलें?
समोसा बनाने की विधि बताओ।
राम के पास 24 सेब थे, उसने एक तिहाई खाए और 5 खरीदे, अब कितने हैं?
पायथन में पैलिंड्रोम जाँचने का फंक्शन लिखो।
गंगा नदी कितनी लंबी है?
अंग्रेज़ी में अनुवाद करो: मैं कल स्कूल नहीं जाऊँगा क्योंकि मैं बीमार हूँ।
पाँच सुझाव दो और बताओ कि उनमें से कौन सा सबसे अच्छा है
छुट्टी के लिए चार शहर बताइए, फिर उन्हें कीमत के क्रम में रखिए।""",
    "Russian": """\
Напиши стихотворение о море.
Сочини историю про храброго зайца.
Как поменять лампочку в фаре?
Рецепт блинов на молоке
У Маши было 24 яблока, она съела треть и купила ещё 5. Сколько у неё яблок?
Напиши на Python функцию, проверяющую палиндром.
Какова длина Волги?
Переведи на английский: Завтра я не пойду в школу, потому что болею.
Дай пять советов и объясни, почему третий лучший
Назови четыре города для отпуска, а потом расставь их по цене.""",
    "Turkish": """\
Deniz hakkında bir şiir yaz.
Cesur bir tavşan hakkında masal anlat.
Araba farının ampulü nasıl değiştirilir?
Mantı tarifi verir misin?
Ayşe'nin 24 elması vardı, üçte birini yedi ve 5 tane aldı. Şimdi kaç elması var?
Python'da palindrom kontrol eden bir fonksiyon yaz.
Kızılırmak kaç kilometre uzunluğunda?
İngilizceye çevir: Yarın okula gitmeyeceğim çünkü hastayım.
Beş ipucu ver ve üçüncüsünün neden en iyisi olduğunu açıkla
Tatil için dört şehir söyle, sonra fiyata göre sırala.""",
}

TWELVE = """\
Give me 12 tips
Give me twelve tips for a good CV.
Nenne mir zwölf Vorteile von Solarzellen.
Liste 12 avantages du vélo
Dame doce razones para leer.
Dammi 12 consigli
Elenca dodici vantaggi della bicicletta.
Geef me 12 redenen
Dê-me doze dicas para dormir bem.
给我十二个改善睡眠的建议
请列出12条学习方法
よく眠るためのヒントを12個教えて
自転車の利点を十二個挙げてください
أعطني اثنتي عشرة نصيحة للنوم الجيد
اذكر ١٢ فائدة للقراءة
नींद के लिए बारह सुझाव दीजिए
साइकिल के १२ फायदे बताइए
Дай двенадцать советов, как лучше спать
Назови 12 преимуществ велосипеда
Daha iyi uyumak için on iki ipucu ver
Bisikletin 12 faydasını say""".splitlines()
