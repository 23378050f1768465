"""How a language writes abbreviations, ordinal numbers and the beginnings of sentences.

A full stop after an abbreviation may or may not end the sentence. What follows decides: a capitalised *function word*
("The", "She", "Ich") is capitalised because it begins a sentence; any other capitalised word may just be a name.

    I live in the U.S. How about you?      "How" is a function word: cut
    The U.S. Senate met.                   "Senate" may be a name: no cut

Function words are spaCy's stop words of the language, and most abbreviations its tokenizer exceptions, so that every
language of spaCy has some. The tables here add what those lack.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Conventions:
    """The tables that the rules look words up in. Abbreviations are written without their last full stop."""

    starters: frozenset[str] = frozenset()
    """Function words, lower case: capitalised, they begin a sentence."""
    titles: frozenset[str] = frozenset()
    """Abbreviations that a name or more text always follows: never the end of a sentence."""
    numbered: frozenset[str] = frozenset()
    """Words that are abbreviations only before a number: "No. 5"."""
    abbreviations: frozenset[str] = frozenset()
    """Abbreviations that end a sentence if a function word follows."""
    closing: frozenset[str] = frozenset()
    """Abbreviations that end a sentence if any capitalised word follows: "etc."."""
    exclaiming: frozenset[str] = frozenset()
    """Names with an exclamation or question mark: "Yahoo!"."""
    ordinals: bool = False
    """Whether a number and a full stop are an ordinal number: "am 3. Oktober"."""
    stops: str = ""
    """Full stops of this language alone."""


def _table(words: str) -> frozenset[str]:
    return frozenset(words.split())


def written(words: str) -> frozenset[str]:
    """Every way to write the words of a table: "etc" also as "Etc" and "ETC"; "Dr" also as "DR", but not as "dr"."""
    given = words.split()
    return frozenset([*given, *(word[0].upper() + word[1:] for word in given), *(word.upper() for word in given)])


_EXCLAIMING = "Yahoo Jeopardy Joomla Wham Oklahoma Kahoot"

_TITLES = {
    "en": (
        "Adm Asst Atty Brig Capt Cmdr Col Cpl Det Dir Dr Drs Fr Ft Gen Gov Hon Insp Lt Maj Messrs Mlle Mme "
        "Mmes Mr Mrs Ms Mt Pfc Pres Prof Profs Pvt Rep Reps Rev Sen Sens Sgt Supt Ven cf vs viz approx ca esp "
        "incl e.g i.e v.s"
    ),
    "de": "Dr Fr Frl Hr Hrn Prof Dipl Ing St Nr Nrn Bd Abs ca bzw vgl evtl ggf sog inkl exkl z.B d.h u.a o.ä i.d.R z.T",
    "fr": "MM Dr Mlle Mlles Mme Mmes Mgr Me Mr Pr St Ste cf env p.ex c.-à-d",
    "es": "Dr Dra Dres Dña Sr Sra Sres Sras Srta Prof Profa Ing Lic Gral Mons Ud Uds Vd Vds cf aprox p.ej núm págs pág",
    "it": "Dott Dr Prof Sig Sigg Sig.ra Sig.na Ing Avv Geom Arch On Mons cfr p.es ca",
    "pt": "Dr Dra Dres Sr Sra Sres Prof Profa Eng Exmo Exma cf aprox p.ex",
    "nl": "Dr Drs Ds Ir Ing Mr Mevr Mw Dhr Prof St bijv bv m.n o.a d.w.z ca vgl resp",
    "ru": "гг ул стр рис см ср напр т.е т.к т.н тов проф акад доц",
    "pl": "dr prof mgr inż ks św hab np tzw tj por nr ul",
    "sv": "Dr Prof t.ex bl.a dvs d.v.s s.k ca jfr kl",
    "da": "Dr Prof f.eks bl.a dvs d.v.s ca jf kl",
    "nb": "Dr Prof f.eks bl.a dvs d.v.s ca jf kl",
    "cs": "Dr Mgr Ing Bc MUDr JUDr PhDr RNDr prof doc tzv např tj sv ul",
}

_NUMBERED = {
    "en": (
        "no nos N° Nº Art Arts Bk Ch Chap Chaps Cl Div Eq Eqs Ex Exs Fig Figs fn ll nn Op para paras pg pgs pl pp "
        "Pt Pts Ref Refs Sec Secs Sect Ser Tab Tel ext Vers Vol Vols vv Jan Feb Mar Apr Jun Jul Aug Sep Sept "
        "Oct Nov Dec"
    ),
    "de": "Art Aufl Anm Kap Ziff Abb Tab Abschn Lfg Rn Rz Str Tel",
    "fr": "No no art chap fig pp vol éd av",
    "es": "No no art cap fig pp vol",
    "it": "art artt cap fig pp pag pagg vol",
    "pt": "art cap fig pp pág págs vol",
    "nl": "nr nrs art blz pp fig hfst",
    "ru": "пп гл",
}

_ABBREVIATIONS = {
    "en": (
        "Assn Assoc Ave Bhd Bldg Blvd Bros Cie Co Corp Cos Cres Cyn Dept Dist Ed Eds Esq Est Expy Hts Hwy Inc "
        "Jct Jr Ln Ltd Mfg Mgmt Natl Pkwy Pl Plc Pty Pvt Pte Rd Ret Rte Sr Sq St Ste Sts Ter Tpk Univ al anon "
        "avg ed eds est feat govt ibid illus int'l intl misc orig PS NB pseud temp trans vol Mon Tue Tues Wed Thu "
        "Thur Thurs Fri Sat Sun Ariz Cal Calif Colo Conn Fla Ill Ind Kan Mass Md Mich Minn Miss Mo Neb Nev "
        "Okla Ore Pa Penn Tenn Tex Va Vt Wash Wis Wyo Ont Que"
    ),
    "fr": "bd boul vol apr janv févr juil sept oct nov déc Cie Sté ex",
    "es": "Av Avda Cía S.A EE.UU EE UU Jr vol ed ej",
    "it": "vol ed Jr es",
    "pt": "Av Ltda Cia S.A Jr vol ed ex",
    "ru": "др пр тыс млн млрд руб коп обл им",
    "pl": "m.in ok im wyd",
}

_CLOSING = {
    "en": "etc lb lbs oz min mins hr hrs sec secs yr yrs mos tsp tbsp",
    "de": "usw",
    "it": "ecc",
    "nl": "enz",
    "pl": "itd itp",
    "ru": "т.д т.п",
    "cs": "atd apod",
    "sv": "osv m.m",
    "da": "osv m.m",
    "nb": "osv m.m",
}

_STOPS = {"el": ";", "grc": ";"}

_ORDINALS = _table("cs da de et eu fi fo hr hu is lb lt lv nb nn sk sl sr tr")

_NOT_STARTERS = _table(
    "amount bottom ca call due empty first fifteen fifty five forty four front full get give go hundred last made make "
    "may move name nine one own part put re say second see serious seven side six sixty show take ten third three top "
    "twelve twenty two us used various will"
)
"""English stop words that names are made of: "U.S. First Lady"."""

_MORE_STARTERS = _table(
    "according although dear despite didn doesn don finally fortunately hello hi isn let oh okay sadly thank thanks "
    "today tomorrow unfortunately wasn yes yesterday"
)
"""English words that begin sentences and are no stop words; "don" is the word of "Don't"."""


def conventions_of(language: str, stop_words: Iterable[str], exceptions: Iterable[str]) -> Conventions:
    """Tables of a language, with the stop words and the tokenizer exceptions that spaCy has for it.

    A language without tables of its own is read with the English ones, which the world's names and titles come in.
    """
    table = language if language in _TITLES else "en"
    starters = frozenset(word.lower() for word in stop_words if word.isalpha())
    if table == "en":
        starters = starters - _NOT_STARTERS | _MORE_STARTERS
    return Conventions(
        starters=starters,
        titles=written(_TITLES[table]),
        numbered=written(_NUMBERED.get(table, _NUMBERED["en"])),
        abbreviations=written(_ABBREVIATIONS.get(table, "Co Inc Ltd Jr Sr"))
        | frozenset(word[:-1] for word in exceptions if word.endswith(".") and len(word.rstrip(".")) > 1),
        closing=written(_CLOSING.get(table, "") + " etc"),
        exclaiming=written(_EXCLAIMING),
        ordinals=language in _ORDINALS,
        stops=_STOPS.get(language, ""),
    )
