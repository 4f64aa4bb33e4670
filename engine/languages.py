"""The languages of Whisper in the order of their tokens, and other names that people use for them.

Source: the published model's token table; large-v3 and turbo add Cantonese at the end.
"""

_CODES_AND_NAMES = """
en english, zh chinese, de german, es spanish, ru russian, ko korean, fr french, ja japanese, pt portuguese, tr turkish,
pl polish, ca catalan, nl dutch, ar arabic, sv swedish, it italian, id indonesian, hi hindi, fi finnish, vi vietnamese,
he hebrew, uk ukrainian, el greek, ms malay, cs czech, ro romanian, da danish, hu hungarian, ta tamil, no norwegian,
th thai, ur urdu, hr croatian, bg bulgarian, lt lithuanian, la latin, mi maori, ml malayalam, cy welsh, sk slovak,
te telugu, fa persian, lv latvian, bn bengali, sr serbian, az azerbaijani, sl slovenian, kn kannada, et estonian,
mk macedonian, br breton, eu basque, is icelandic, hy armenian, ne nepali, mn mongolian, bs bosnian, kk kazakh,
sq albanian, sw swahili, gl galician, mr marathi, pa punjabi, si sinhala, km khmer, sn shona, yo yoruba, so somali,
af afrikaans, oc occitan, ka georgian, be belarusian, tg tajik, sd sindhi, gu gujarati, am amharic, yi yiddish, lo lao,
uz uzbek, fo faroese, ht haitian creole, ps pashto, tk turkmen, nn nynorsk, mt maltese, sa sanskrit, lb luxembourgish,
my myanmar, bo tibetan, tl tagalog, mg malagasy, as assamese, tt tatar, haw hawaiian, ln lingala, ha hausa, ba bashkir,
jw javanese, su sundanese, yue cantonese
"""

LANGUAGES: dict[str, str] = {}  # code to English name
for _entry in _CODES_AND_NAMES.split(","):
    _code, _name = _entry.strip().split(maxsplit=1)
    LANGUAGES[_code] = _name

ALIASES: dict[str, str] = {
    "burmese": "my",
    "valencian": "ca",
    "flemish": "nl",
    "haitian": "ht",
    "letzeburgesch": "lb",
    "pushto": "ps",
    "panjabi": "pa",
    "moldavian": "ro",
    "moldovan": "ro",
    "sinhalese": "si",
    "castilian": "es",
    "mandarin": "zh",
}


def language_code(name: str) -> str:
    """The code of a language given by code, English name or alias, in any case; ValueError if there is none."""
    wanted = name.strip().lower()
    if wanted in LANGUAGES:
        return wanted
    if wanted in ALIASES:
        return ALIASES[wanted]
    for code, language in LANGUAGES.items():
        if language == wanted:
            return code
    raise ValueError(f"unknown language {name!r}; use a code such as en, de or zh, or a name such as german")
