"""What a reader would call a sentence. In each case "|" stands for the space at which the text is cut."""

import pytest

from localjudge.text import sentences

CASES = [
    "The sky is blue.|Grass is green!|Is snow white?|It is.",
    "What?!|Never!!!|Well...|Fine.",
    "No stop at the end of this one",
    "The war ended in 1945.|Then the rebuilding began.",
    "He published 4 papers in 1905.|Einstein moved to Switzerland in 1895",
    "Pi is 3.14 and e is 2.72.|Both are irrational.",
    "It costs $1.50.|That is 1,000.50 yen.|Buy it.",
    "Version 2.0.1 is out.|Upgrade now.",
    "The ratio was 3.|4 of them failed.",
    "Is it?|yes it is.|ok.",
    "Dr. Watson met Mr. and Mrs. Hudson on Baker St. in London.|They had tea.",
    "Prof. Curie and Gen. Foch spoke.|Rev. Green prayed.",
    "I live in the U.S.|How about you?",
    "She works for the U.S. Government in Virginia.",
    "They moved to Washington, D.C.|The house was small.",
    "Use a metal, e.g. Iron, or a gas, i.e. Helium.",
    "See the appendix, cf. Table 3.|It is long.",
    "Please turn to p. 55.|Then read pp. 60-62.",
    "See No. 5.|There is no.|No, there is.",
    "Look at Fig. 3 and Eq. 12 in Vol. 2, Ch. 4, Sec. 1.|All agree.",
    "The No. of people rose.",
    "J. R. R. Tolkien wrote it.|C. S. Lewis read it.",
    "George W. Bush met John F. Kerry.|They shook hands.",
    "You and I.|Did you see Albert I. Jones?",
    "This is Plan B.|The other failed.",
    "She sold it to Pitt, Briggs & Co.|It closed yesterday.",
    "Pitt, Briggs & Co. Limited sold it.",
    "Apple Inc. and Acme Corp. merged.|They are now Acme Ltd.",
    "Sammy Davis Jr. Smith sang.",
    "Martin Luther King Jr. was born in 1929.|He died in 1968.",
    "He has a Ph.D. in physics.|He also has an M.D.|She has none.",
    "Bring pens, paper, etc.|Toyota will bring the rest.",
    "(Pens, paper, etc.).|Then we left.",
    "Smith et al., 2015, agree with Jones et al. (2016).|We do not.",
    "Brown v. Board of Education changed it.|Roe vs. Wade too.",
    "The co. has lots of money.|We have none.",
    "It rained on Jan. 5 and Sept. 30.|March was dry.",
    "He lives at 12 Main St.|The house is red.",
    "She met Lt. Col. Brown and Sgt. Pepper.",
    "It is approx. Five miles away.",
    "It weighs 5 lbs.|Put it down.",
    "The film was directed by M. A. Khan.|It was long.",
    "He said no.|I left.|See Vol. I for more.",
    "The U.S.-based firm and JFK Jr.'s book are here.",
    "You can find it at N°. 1026.253.|That is all.",
    "Mt. Everest and St. Louis are far from Ft. Worth.",
    "Tell Messrs. Smith and Jones.|They know.",
    "The store opens at 9 a.m. and closes at 5 p.m.|It is open daily.",
    "At 5 a.m. Mr. Smith went to the bank.|He left the bank at 6 P.M.|Mr. Smith then went to the store.",
    "We meet at 10 a.m. Monday or 3 p.m. EST.|Be there.",
    "It starts at 8p.m.|Doors open at 7.",
    "I never meant that...|She left the store.",
    "I wasn't really ... well, what I mean...see . . . what I'm saying is . . . I didn't mean it.",
    "So it ended....|The next day it rained.",
    "He waited… and waited…|Nobody came.",
    "...and then it stopped.",
    "Maybe... I thought so.",
    "It was there.. and gone.|Right.",
    '"Go away."|He left.',
    'He said, "Go away."|Then he left.',
    '"Go away!" he said.|She went.',
    '"Really?" asked Tom.|Nobody answered.',
    "She said “Stop.”|He stopped.",
    "‘It is late.’|They left.",
    'They won.|"We are happy," she said.|"It was hard."',
    "They won (nobody knows how).|It was late.",
    "They won.|[See the note.]|It was late.",
    "It was over (was it?) and they left.",
    "« C'est fini. »|Il est parti.",
    'It is true."|We know.',
    'He said nothing.|"Then he left."',
    '" It is true . "|We know .',
    'The show "Who Is It?" was long.|We slept.',
    "**Bold words.**|Plain words.",
    'Read "The End." by Lee.|It is short.',
    "He was born in Dulwich.[17]|He died in Greece.[18][19]",
    "He was born in Dulwich. [17]|He died in Greece. [citation needed]|The end.",
    "So they say [1].|We agree [2, 3].",
    "He died in 1905.:75–76|Then his son ruled.",
    "They were persecuted.[aa]|They fled.[note 3]",
    "He died.¹²|His son ruled.",
    "She joined Yahoo! and AOL.|Then she left.",
    "She left Yahoo!|Then she joined AOL.",
    "Yahoo! Inc. was sold.",
    "They watched Jeopardy! together.",
    "Write to a.smith@example.com.|She will answer.",
    "Visit www.example.com.|It is free.",
    "Visit https://example.com/a.b?c=D.E&f=G!|It is free.",
    "See example.com/Index.Html for more.|Or ask.",
    "Use node.js or ASP.NET with os.path.|Run main.py.|Done.",
    "The price of Amazon.com fell.|It rose again.",
    "Call numpy.Array(x).Sum() first.|Then print.",
    "Reach us at www.example.com|We answer soon.",
    "I liked it. :)|We will come again.",
    "Great! 😀|We will come again.",
    "I ❤ New York.|You do too.",
    "Do this:|1. Open it|2. Close it|3. Go",
    "Fruits:|• apples|• pears",
    "Bring these:|- A pen - or two|- A book",
    "Ratings • 12 reviews • Home",
    "Step 2. Close the lid.|Step 3. Wait.",
    "A. B. Yehoshua met C. D. Smith.|They talked.",
    "1.) The first item.|2.) The second item.",
    "a. The first item|b. The second item|c. The third item",
    "(a) The first item|(b) The second item",
    "• The first item|• The second item",
    "• 9. The first item|• 10. The second item",
    "The house has 2.|It is small.",
    "We need 1) eggs, 2) milk and 3) flour.",
    "The maximum daily dose is 4 g.|Take it with food.",
    "Weight 70 kg.|Height 1.80 m.|BMI 21.6.",
    "The rate is EURIBOR + 1.25 pct. pts.|See Fig. 3.",
    "See Fig. 3. for details.",
    "Creatinine 1.4 mg/dl.|eGFR 54 ml/min/1.73 m².|Pulse 88/min.|Afebrile.",
    "The office measures 1,500 sq. ft.|Parking is included.",
    "He is 6 ft. 2 in. tall and weighs 180 lbs.|Exercise is normal.",
    "The bond pays 4.5 % p.a.|Interest is paid yearly.",
    "The gradient was max. 45 mmHg.|The min. 4 h interval was kept.",
    "Give 5 mg. IV now.|Repeat after 6 h.",
    "In 1990 J. Smith left.|See 45 F. Supp. 12.",
    "Vitamin K.|Vitamin C.",
    "Grade A.|Paid in full.",
    "Take vitamins A, D, E and K.|Avoid alcohol.",
    "Applicants must complete section E.|Incomplete forms are returned.",
    "C. difficile was found.|H. pylori was not.",
    "Exhibit B was signed by J. B. Tan.|Counsel objected.",
    "Pt. was seen in the E.R.|BP 120/80 mmHg, HR 88 b.p.m.|Given ASA 325 mg p.o. and O2.|Pain resolved.",
    "Pt. denies fever.|Hx. of asthma.|Rx. renewed.",
    "Take 1 tab. q.i.d. p.r.n. for pain.|Stop if a rash appears.",
    "She has MS.|Treatment was started.",
    "See 42 U.S.C. § 1983 and 29 C.F.R. pt. 1910.",
    "The statute, Pub. L. No. 94-553, took effect (S.D.N.Y. 1999).|We agree.",
    "Sales (incl. VAT, excl. rent) rose.|Costs fell.",
    "It was written by J. Van der Berg and C. De Luca.|It won a prize.",
]

NO_SPACE = [
    ["Hello world.", "Today is fine.", "Mr. Smith bought 1,000.", "That is a lot."],
    ["It ended....", "Then it began."],
    ["Is it free?", "thanks for asking"],
    ["Yes!", "No!", "Maybe."],
    ['He said "no."', "Then he left."],
    ["He left (at last.)", "Then she came."],
]

LINES = [
    ["Introduction", "This paper is short.", "It has no end."],
    ["# Heading", "Text under the heading."],
    ["## A Heading That Is Long Enough To Fill The Whole Line Of Text", "and text below it"],
    ["Groceries:", "- two eggs", "- one loaf."],
    ["* one", "* two"],
    ["+ one", "– two"],
    ["RESULTS", "2020 was a good year"],
    ["1. one", "2. two", "10. ten"],
    ["a) one", "b) two"],
    ["| a | b |", "| 1 | 2 |"],
    ["features", "contact manager", "events, activities"],
    ["Dear John,", "I was on vacation."],
    ["Kind regards,", "Ann"],
    ["Undergraduate Student Government", "The Pennsylvania State University"],
    ["Above the rule", "----------", "Below the rule"],
]

WRAPPED = [
    "This sentence was broken across two lines of text because the\nfile is narrow.",
    "The gas H\n2 and the salt Zn\n5(OH)\n6 are made here.",
    "It was a cold \nnight in the city.",
    "The committee that was appointed by the Congress of the United\nStates of America met on Monday and had nothing "
    "to tell the\nGerman ambassador who came.",
    "The tower which the town built in the year of the flood had cost\n$5 million by then.",
    "    An indented sentence that does not fit into one line of text and\n    goes on in the next.".strip(),
    "> This reply quotes a sentence that somebody wrote and that is\n> longer than one line.",
    "- this item of a list is so long that it does not fit into one line\n  and goes on in the next.",
]

OTHER_LANGUAGES = [
    ("de", "Am 3. Oktober 1990 war es so weit.|Die Mauer war weg."),
    ("de", "Das gilt z. B. Montags und d. h. immer.|Gut."),
    ("de", "Dr. Müller und Hr. Schmidt kamen usw.|Dann gingen sie."),
    ("de", "Der 2. Weltkrieg endete 1945.|Danach kam Frieden."),
    ("de", "Er sagte: „Ich komme.“|Dann kam er."),
    ("de", "Die Pat. klagt seit dem 3. April über Kopfschmerzen.|Die Aufn. erfolgte durch OA Dr. med. Huber."),
    ("de", "Gem. Art. 6 Abs. 1 lit. b DSGVO ist das erlaubt.|Der Kläger zahlt."),
    ("de", "Dr. Meier sah den Pat. am 3.4. um 10.15 Uhr.|Danach ging er."),
    ("de", "HF 80.|RR 120/80.|Puls 72.|Lunge frei.|Bisoprolol 1-0-1.|Typ II.|Therapie wie bisher."),
    ("de", "Er wohnt Hauptstr. 5 im 2. Stock.|Bek. art. Hypertonie.|Verletzungen aller Art.|Ruhe."),
    ("fr", "La cour a visé l'art. L. 121-1 du code.|Le juge a dit : « Non. »"),
    ("it", "Ai sensi dell'art. 360 c.p.c. il ricorso è respinto.|Spese compensate."),
    ("fr", "M. Dupont et Mme. Martin sont là.|Ils parlent."),
    ("fr", "Est-ce vrai ?|Oui !|Non."),
    ("es", "¿Qué pasa?|¡Nada!|El Sr. López y la Dra. Ruiz llegaron."),
    ("it", "Il Dott. Rossi arrivò ecc.|Poi partì."),
    ("pt", "O Sr. Silva chegou.|Ele saiu."),
    ("nl", "Dhr. de Vries kwam bijv. Maandag.|Toen ging hij."),
    ("ru", "Он жил в г. Москве.|Потом уехал."),
    ("ru", "А. С. Пушкин родился в 1799 г.|Он был поэтом."),
    ("pl", "Spotkałem dr. Nowaka.|Było miło."),
    ("el", "Τι είναι αυτό;|Δεν ξέρω."),
    ("hi", "यह एक वाक्य है।|यह दूसरा है।"),
    ("ar", "ما هذا؟|هذا كتاب."),
    ("ur", "یہ ایک جملہ ہے۔|یہ دوسرا ہے۔"),
    ("am", "ይህ አንድ ነው።|ይህ ሁለት ነው።"),
    ("hy", "Սա մեկն է։|Սա երկրորդն է։"),
    ("xx", "ဒါက ပထမ။|ဒါက ဒုတိယ။"),
    ("he", "זה משפט.|זה עוד משפט."),
    ("en", "यह एक वाक्य है।|That is Hindi."),
]

CJK = [
    ("zh", ["这是第一句。", "这是第二句！", "是吗？", "是。"]),
    ("zh", ["他说：“你好。”", "然后走了。"]),
    ("ja", ["これはペンです。", "それはマーカーです。"]),
    ("ja", ["「はい。」と言った。", "終わり。"]),
    ("ja", ["良かったね！", "すごい！"]),
    ("en", ["这是第一句。", "这是第二句。", "And this is English."]),
    ("xx", ["円周率は３．１４です。", "はい。"]),
]


def cut(text: str, language: str = "en") -> list[str]:
    return [span.text for span in sentences(text, language)]


@pytest.mark.parametrize("case", CASES)
def test_english_is_cut_where_a_reader_would(case: str) -> None:
    expected = case.split("|")
    assert cut(" ".join(expected)) == expected


@pytest.mark.parametrize("expected", NO_SPACE)
def test_a_stop_with_no_space_after_it_ends_a_sentence_before_a_whole_word(expected: list[str]) -> None:
    assert cut("".join(expected)) == expected


@pytest.mark.parametrize("expected", LINES)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\n\n", " \n   ", "\u2028"])
def test_headings_list_items_and_short_lines_are_sentences(expected: list[str], line_end: str) -> None:
    assert cut(line_end.join(expected)) == expected


@pytest.mark.parametrize("text", WRAPPED)
def test_a_wrapped_line_goes_on_with_the_sentence(text: str) -> None:
    assert cut(text) == [text]


@pytest.mark.parametrize(("language", "case"), OTHER_LANGUAGES)
def test_other_languages_are_cut_where_a_reader_would(language: str, case: str) -> None:
    expected = case.split("|")
    assert cut(" ".join(expected), language) == expected


@pytest.mark.parametrize(("language", "expected"), CJK)
def test_scripts_without_spaces_are_cut_at_their_own_stops(language: str, expected: list[str]) -> None:
    assert cut("".join(expected), language) == expected
