"""Reading numbers, dates, times and durations that are written as text.

The forms are tables: :data:`FAMILIES` of what stands behind numbers, :data:`ORDERS` of patterns of
dates. The text of this module is put into exported models that have such columns, see
:mod:`mercer_app.export`: it needs nothing but NumPy.
"""

# ruff: noqa: RUF001  # signs of many scripts are what it reads

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

# What East Asian keyboards write, and typesetting: one sign for each that is read.
_SAME_SIGN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord(sign): same
    for signs, same in (
        ("\u2212\ufe63\uff0d", "-"),
        ("\u2044\u2215", "/"),
        ("\uffe5", "¥"),
        ("\uffe1", "£"),
        ("\uffe6", "₩"),
        ("\u3000\u00a0\u202f\u2009\u2007\u2008", " "),
        ("\u2019\u02bc\u00b4\u2018", "'"),
        ("\u200b\u200e\u200f\u202a\u202b\u202c\u2066\u2067\u2069\ufeff", None),
    )
    for sign in signs
}


# What shows that a spreadsheet has text there, and marks of notes behind what they are about.
_SHEET = re.compile(r"=\s?\"(.*)\"|'(?=[-+.\d])(.*[^'])")
_NOTES = re.compile(
    r"(?<=[\w%)])(?:\s?\[(?:\d{1,3}|[a-z]{1,2}|(?:note|nb)\s\d+)\])+\Z|(?<=\d)[¹²³⁴-⁹†‡*]+\Z"
)


def _plain(text: str) -> str:
    """Write text with the signs that patterns know, and single blanks."""
    text = text.strip() if text.isascii() else text.translate(_SAME_SIGN).strip()
    if text[:1] in ("=", "'"):
        sheet = _SHEET.fullmatch(text)
        text = (sheet[1] or sheet[2]).strip() if sheet else text
    if text and not text[-1].isalnum():
        text = _NOTES.sub("", text)
    return " ".join(text.split()) if "  " in text or "\t" in text else text


# -- numbers --------------------------------------------------------------------------------------

_DIGIT = re.compile(r"[\d¼-¾⅐-⅞]")
_SPACES = re.compile(r"[\s']")
_AMOUNT = re.compile(
    r"(?:(?:[~≈∼≃±約约]|c\.|(?:ca|circa|approx|approximately|about|around|etwa|ungefähr|environ|aprox"
    r"|около)(?:\.|(?=\s)))\s*)?(?P<bound>[<>]=?|[≤≥⩽⩾]|(?i:over|above|under|below"
    r"|(?:more|less|fewer) than|up to|at (?:least|most)|über|unter|bis(?: zu)?|mindestens|höchstens"
    r"|(?:mehr|weniger) als|(?:plus|moins) de|(?:más|menos) de)\s)?\s*"
    r"(?P<open>\(?)\s*(?P<sign>[-+]?)\s*(?P<before>[^\W\d_]{1,3}\.(?=\s?\d)|[^\d\s.,()+-]*)\s*"
    r"(?P<open2>\(?)\s*(?P<sign2>[-+]?)\s*(?P<digits>\d[\d.,_\s']*|[.,]\d+|(?=\d+\s?/|[¼-¾⅐-⅞]))"
    r"(?P<power>[eE][-+]?\d+|[dD][-+]\d+|\s?[x×*·]\s?10(?:\^|\*\*)[-+]?\d+)?"
    r"(?P<fraction>\s?[¼-¾⅐-⅞]|(?<![\d.,])[1-9]\d*\s?/\s?[1-9]\d*)?"
    r"(?:/-|(?<=[.,])(?:--?|[–—])|\s?(?:±|\+/-)\s?[\d.,]+)?(?P<more>\s?\+)?(?P<minus>-(?=\s|\Z))?"
    # Units may end in a point, as "Mio.", and in a power, as "m2".
    r"\s*(?P<after>(?:[^\d.,()+-]|(?<=[^\W\d_])\.|(?<=m)[23])*?)\s*(?P<minus2>-?)(?P<close>\)?)"
)
# What may stand before a number: signs and codes of currencies.
_CURRENCY = re.compile(
    r"[$€£¥₹₩₽฿₺₪₫₴₱₦¢]|[A-Z]{0,3}[$€£¥]|"
    r"USD|EUR|GBP|JPY|CHF|CNY|RMB|INR|CAD|AUD|BRL|MXN|SEK|NOK|DKK|PLN|RUB|KRW|SGD|HKD|ZAR|"
    r"Fr\.?|Fr\.|SFr\.?|kr\.?|Rs\.?|Rp\.?|zł|Kč|元"
)
_LONGEST_UNIT = 8  # letters, as in "minutes"
_LONGEST = 64  # characters
_LONGEST_DATE = 100
# Groups of three digits with one mark between; in India of two before the last, as 12,34,567.
_GROUPED = re.compile(
    r"[1-9]\d{0,2}(?P<mark>[., _])\d{3}(?:(?P=mark)\d{3})*|[1-9]\d?(?:,\d\d)+,\d{3}"
)
NO_UNIT = "\0"  # of text that is no number with a unit

_COUNTS = {
    1e3: "k K tsd tausend thousand thousands mila mil тыс 千 천",
    1e4: "万 萬 만",
    1e5: "lakh lakhs lac lacs",
    1e6: "m M MM mn mln mio million millions millionen millones milioni milhões milhão млн 百万",
    1e7: "cr Cr crore crores",
    1e8: "億 亿 억",
    1e9: "b B G bn bln mrd billion billions milliard milliards milliarde milliarden miliardi млрд",
    1e12: "T tn trn trillion trillions 兆 조",
}
#: Sizes of a unit that may stand beside each other in a column, and how much each is.
FAMILIES: dict[str, dict[str, float]] = {
    "count": {"": 1.0, **{word: n for n, words in _COUNTS.items() for word in words.split()}},
    "bytes": {"B": 1.0, "byte": 1.0, "bytes": 1.0}
    | {f"{letter}B": 1e3**n for n, letter in ((1, "k"), (1, "K"), (2, "M"), (3, "G"), (4, "T"))}
    | {f"{letter}iB": 1024.0**n for n, letter in ((1, "K"), (2, "M"), (3, "G"), (4, "T"))},
    "metres": {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3},
    "grams": {"mg": 1e-3, "g": 1.0, "kg": 1e3},
    "litres": {"ml": 1e-3, "mL": 1e-3, "cl": 1e-2, "dl": 0.1, "l": 1.0, "L": 1.0},
    "watts": {"W": 1.0, "kW": 1e3, "MW": 1e6, "GW": 1e9},
    "degrees": {  # of latitude and longitude
        degree + side: sign
        for degree in ("", "°", "° ")
        for side, sign in (("N", 1.0), ("E", 1.0), ("S", -1.0), ("W", -1.0))
    },
    "hertz": {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
}
_BEHIND = re.compile(r"(百万|[千천万萬만億亿억兆조]|(?:°\s?)?[^\W\d_]+)\.?\s*(.*)")


def read_numbers(
    texts: Sequence[str], decimal: str, unit: str, scale: str = ""
) -> NDArray[np.float64]:
    """Read numbers; NaN for what is none with this decimal mark, and this unit or none.

    With a scale of :data:`FAMILIES`, what stands behind numbers multiplies them.

    Examples
    --------
    >>> read_numbers(["1.3K", "963", "2 Mio."], ".", "", "count").tolist()
    [1300.0, 963.0, 2000000.0]
    """
    return match_values([number_match(text) for text in texts], decimal, unit, scale)


def match_values(
    matches: Sequence[re.Match[str] | None], decimal: str, unit: str, scale: str = ""
) -> NDArray[np.float64]:
    """Return what is meant by what :func:`number_match` found."""
    return np.array([_value(match, decimal, unit, scale) for match in matches], dtype=np.float64)


def number_match(text: str) -> re.Match[str] | None:
    """Find the parts of a number, if text may be one."""
    text = _plain(text)
    if len(text) > _LONGEST or not _DIGIT.search(text):
        return None
    return _AMOUNT.fullmatch(text)


def _value(match: re.Match[str] | None, decimal: str, unit: str, scale: str) -> float:
    if match is None:
        return math.nan
    if scale:
        sizes = FAMILIES[scale]
        suffix, found = suffix_and_unit(match, scale)
        size = sizes.get(suffix, math.nan)
        if unit in sizes:  # numbers are multiples of one that all had
            size, unit = size / sizes[unit], ""
    else:
        found, size = unit_of(match), 1.0
    if found not in (unit.rstrip("."), ""):  # that of models saved earlier may end in a point
        return math.nan
    digits = match["digits"]
    if not digits.isdecimal():
        digits = _SPACES.sub(" ", digits).strip()
    whole, point, decimals = digits.partition(decimal)
    if point and not (decimals.isdecimal() or not decimals):
        return math.nan
    if not (whole.isdecimal() or not whole):
        if not _GROUPED.fullmatch(whole):
            return math.nan
        whole = re.sub("[., _]", "", whole)
    bracketed = bool(match["open"] or match["open2"])
    signs = [match[name] for name in ("sign", "sign2", "minus", "minus2") if match[name]]
    if bracketed != bool(match["close"]) or len(signs) > 1:
        return math.nan
    power = match["power"] or ""
    if power:
        power = f"e{re.split('[*^eEdD]', power)[-1]}"
    value = float(f"{whole or '0'}.{decimals or '0'}{power}")
    if match["fraction"]:
        value += math.nan if point or power else _fraction(match["fraction"].strip())
    return (-value if bracketed or signs == ["-"] else value) * size


def _fraction(text: str) -> float:
    """Return a part of one; other ratios may be anything, as dates or the pressure of blood."""
    if "/" not in text:
        return unicodedata.numeric(text)
    top, bottom = map(int, text.split("/"))
    return top / bottom if 0 < top <= bottom else math.nan


def unit_of(match: re.Match[str]) -> str:
    """Return what stands beside a number, in the singular."""
    return _unit(match, match["after"])


def _unit(match: re.Match[str], after: str) -> str:
    before = match["before"]
    if before and (after or not _CURRENCY.fullmatch(before)):
        return NO_UNIT
    if len(after) > _LONGEST_UNIT or (match["open"] and after and not _CURRENCY.fullmatch(after)):
        return NO_UNIT
    after = after.rstrip(".")
    return before.rstrip(".") or (after[:-1] if len(after) > 2 and after.endswith("s") else after)


def suffix_and_unit(match: re.Match[str], scale: str) -> tuple[str, str]:
    """Part what stands behind a number into its size and its unit.

    Examples
    --------
    >>> suffix_and_unit(number_match("1.3 Mio. €"), "count")
    ('mio', '€')
    """
    sizes, after = FAMILIES[scale], match["after"]
    found = _BEHIND.fullmatch(after)
    if found is None:
        return "", _unit(match, after)
    word, rest = found.groups()
    suffix = word if word in sizes or len(word) < 3 else word.casefold()
    if suffix not in sizes:
        return "", _unit(match, after)
    return suffix, _unit(match, rest)


# -- dates ----------------------------------------------------------------------------------------

# Names of months in languages of Europe; they may be shortened to three letters or more. Those
# that begin like other words count as a whole only: they stand after the bar.
_MONTH_NAMES = (
    "january januar jänner januari janvier enero gennaio janeiro styczeń stycznia январь января "
    "січень січня ocak gener ianuarie | leden ledna január",
    "february februar feber februari février febrero febbraio fevereiro luty lutego февраль "
    "февраля лютий лютого şubat febrer februarie | února únor február",
    "march märz maerz mars marzo março maart mrt mrz marzec marca март марта березень березня "
    "març martie | březen března mart március",
    "april avril abril aprile kwiecień kwietnia апрель апреля квітень квітня nisan aprilie | "
    "duben dubna április",
    "may mai mayo maggio maio mei maj maja май мая травень травня mayıs maig | květen května május",
    "june juni juin junio giugno junho czerwiec czerwca июнь июня червень червня haziran juny "
    "iunie | červen června június",
    "july juli juillet julio luglio julho lipiec lipca июль июля липень липня temmuz juliol "
    "iulie | červenec července július",
    "august août aout agosto augustus sierpień sierpnia август августа серпень серпня ağustos "
    "agost | srpen srpna augusztus agustus",
    "september septembre septiembre setiembre settembre setembro wrzesień września сентябрь "
    "сентября вересень вересня eylül septembrie setembre | září szeptember eylul",
    "october oktober octobre octubre ottobre outubro październik października октябрь октября "
    "жовтень жовтня ekim octombrie | říjen října október",
    "november novembre noviembre novembro listopad listopada ноябрь ноября kasım noiembrie | "
    "listopadu листопад листопада",
    "december dezember décembre diciembre dicembre dezembro grudzień grudnia декабрь декабря "
    "грудень грудня aralık desember desembre decembrie | prosinec prosince",
)


def _bare(word: str) -> str:
    """Write a word in small letters without accents."""
    parts = unicodedata.normalize("NFKD", word.casefold())
    return "".join(sign for sign in parts if not unicodedata.combining(sign))


def _months() -> dict[str, int]:
    starts: dict[str, set[int]] = {}
    whole: dict[str, int] = {}
    for number, names in enumerate(_MONTH_NAMES, start=1):
        shortened, _, others = names.partition("|")
        for name in map(_bare, shortened.split()):
            for end in range(3, len(name) + 1):
                starts.setdefault(name[:end], set()).add(number)
        whole |= {_bare(name): number for name in (*shortened.split(), *others.split())}
    return {start: min(found) for start, found in starts.items() if len(found) == 1} | whole


_MONTHS = _months()
# Hours before UTC of what clocks are called; where two are called alike, as most people mean it.
_ZONES = {
    name: hours
    for hours, names in {
        -10: "HST", -9: "AKST", -8: "PST AKDT", -7: "MST PDT", -6: "CST MDT", -5: "EST CDT",
        -4: "EDT AST", -3: "BRT ART ADT", 0: "Z UTC GMT UT WET", 1: "CET MEZ BST WEST WAT",
        2: "CEST MESZ EET SAST CAT", 3: "EEST MSK EAT TRT", 4: "GST", 5: "PKT", 5.5: "IST",
        7: "WIB ICT", 8: "HKT SGT PHT AWST", 9: "JST KST", 9.5: "ACST", 10: "AEST", 11: "AEDT",
        12: "NZST", 13: "NZDT",
    }.items()
    for name in names.split()
}  # fmt: skip
_NOON = "(?P<noon>上午|下午|午前|午後|오전|오후)?\\s?"
_HALF = r"(?:\s*(?P<half>[AaPp]\.?\s?[Mm](?![^\W\d_])\.?))?"
_O_CLOCK = r"(?:\s?(?:Uhr|uhr|hrs?|h)(?![^\W\d_])\.?)?"
_SECOND = r"(?:(?:(?P=sep)|(?<=[m分분])\s?)(?P<second>\d{2}(?:[.,:]\d+)?|\d(?=[秒초]))[s秒초]?)?"
_MINUTE = r"(?P<minute>\d{2}|\d(?=[分분]))[m分분]?" + _SECOND
_HOUR_ALONE = r"(?:[時时시点點]|(?=\s?(?:[AaPp]\.?\s?[Mm]|[Uu]hr|h\Z)))"
_CLOCK = (
    rf"{_NOON}(?P<hour>\d{{2}}(?=\d)|\d{{1,2}}(?!\d))"
    rf"(?:(?P<sep>[:.h-]|[時时시点點]\s?|){_MINUTE}|{_HOUR_ALONE}){_HALF}{_O_CLOCK}"
)
_ZONE = (
    r"(?:\s*(?P<zone>(?:UTC|GMT|Z)?\s?[-+]\d{1,2}(?::?\d{2})?|Z|[A-Z]{2,4}T|UT|UTC|GMT|MEZ|MESZ|MSK|WIB"
    r"|[A-Z]\w+(?:/[\w+-]+)+))?(?:\s*[(\[](?P<place>[^()\[\]]*)[)\]])?"
)
_TIME = (
    r"(?:(?:[Tt_]|,?\s+(?:(?:at|um|om|à|às|a\s+las|alle|kl\.?|o|в)\s+)?"
    rf"|[-:](?=\d\d(?P<gap>[-:.]?)\d\d(?P=gap)\d\d)){_CLOCK})?{_ZONE}"
)
_DAY_NAME = r"(?:[^\W\d_]{2,12}(?:-feira)?\.?,?\s+)?"
_YEAR = r"(?P<year>\d{4}|'?\d{2}(?!\d))"
_OF_YEAR = r"(?:\s?(?:г\.?|года|р\.|року)(?!\w))?"
_SURE_YEAR = r"(?P<year>(?:19|20)\d{2})"
_MONTH_NAME = r"(?P<month>[^\W\d_]{3,12})\.?"
_MARK = r"(?P<mark>\. ?|[-/ ])"
_DAYS_OF = r"(?:days?|d|Tage?|jours?|días?|dias?|giorn[oi]|dagen|дн\w*|д)"
#: Patterns of dates, and of times without a date, by the order of their parts.
ORDERS = {
    "ymd": (
        r"(?P<year>\d{4})(?P<mark>[-/]|\.(?=\d+\.)|:(?=\d\d:\d\d(?:\D|\Z))| (?=\d\d? \d))"
        rf"(?P<month>\d{{1,2}})(?:(?P=mark)(?P<day>\d{{1,2}})(?!\d){_TIME})?"
    ),
    "yy-m-d": (
        rf"(?P<year>\d{{2}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}})(?!\d){_TIME}"
    ),
    "dmy": (
        rf"{_DAY_NAME}(?P<day>\d{{1,2}}){_MARK}(?P<month>\d{{1,2}})(?P=mark){_YEAR}{_OF_YEAR}{_TIME}"
    ),
    "mdy": rf"{_DAY_NAME}(?P<month>\d{{1,2}}){_MARK}(?P<day>\d{{1,2}})(?P=mark){_YEAR}{_TIME}",
    "d month y": (
        rf"\[?{_DAY_NAME}(?P<day>\d{{1,2}})(?:\.|st|nd|rd|th|er|º|ª)?[-/ ]?\s*(?:(?:de|of|di)\s+)?"
        rf"{_MONTH_NAME}[-/, ]*(?:del?\s+)?{_YEAR}{_OF_YEAR}{_TIME}\]?"
    ),
    "month d y": (
        rf"{_DAY_NAME}{_MONTH_NAME}[-/ ]?\s*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[-/, ]+{_YEAR}{_TIME}"
    ),
    "month y": (
        rf"{_MONTH_NAME}[-/, ]*(?:del?\s+)?(?P<year>\d{{4}}|'\d{{2}}|(?<=[-/])\d{{2}}){_OF_YEAR}"
    ),
    "y month d": (
        rf"(?P<year>\d{{4}})[-/., ]*{_MONTH_NAME}(?:[-/ ]*(?P<day>\d{{1,2}})(?!\d){_TIME})?"
    ),
    "month d time y": (
        rf"{_DAY_NAME}{_MONTH_NAME}\s+(?P<day>\d{{1,2}}),?\s+{_CLOCK}"
        r"(?:\s+(?P<zone>[A-Z]{2,5}|[-+]\d{4}))?\s+(?P<year>\d{4})"
    ),
    "yyyymmdd": rf"{_SURE_YEAR}(?P<month>\d{{2}})(?P<day>\d{{2}})(?:[Tt_ -]?{_CLOCK})?{_ZONE}",
    "y年m月d日": (
        r"(?P<year>\d{4})\s?[年년]\s?(?P<month>\d{1,2})\s?[月월]"
        rf"(?:\s?(?P<day>\d{{1,2}})\s?[日号號일](?:\s?\(\w+\)|\s?(?:星期|周)\w|\s?\w曜日?)?(?:\s*{_CLOCK})?)?"
    ),
    "m/y": r"(?P<month>\d{1,2})[-/](?P<year>\d{4})",
    "ymm": rf"{_SURE_YEAR}[-/ ]?[Mm](?P<month>\d{{1,2}})",
    "y week d": (
        rf"{_SURE_YEAR}[-/ ]*(?:W|w(?=\d)|KW|CW|[Ww]k|[Ww]eek)\s?(?P<week>\d{{1,2}})"
        r"(?:-?(?P<weekday>[1-7]))?"
    ),
    "week y": rf"(?:W|KW|CW|[Ww]k|[Ww]eek)\s?(?P<week>\d{{1,2}})[-/, ]+{_SURE_YEAR}",
    "y quarter": rf"{_SURE_YEAR}[-/.: ]*(?P<period>[Qq][1-4]|[1-4]Q|[HhSs][12])",
    "quarter y": (
        r"(?P<period>(?:[Qq][1-4]|H[12])(?!\d\d\Z)|[1-4]Q|[12]H|[1-4]\.\s?Quartal)[-/., ]*"
        r"(?P<year>(?:19|20)\d\d|'?\d\d)"
    ),
    "y-day": rf"{_SURE_YEAR}[-/](?P<day_of_year>\d{{3}})(?!\d){_TIME}",
    "time": (
        rf"{_NOON}(?P<hour>\d{{1,2}})(?:(?P<sep>[:h]|[時时시点點]\s?){_MINUTE}|{_HOUR_ALONE})"
        rf"{_HALF}{_O_CLOCK}{_ZONE}"
    ),
    "h:m:s": (
        rf"(?P<minus>-)?(?:(?P<days>\d+)(?:\s*{_DAYS_OF}\.?,?\s+|\.(?=\d\d:\d\d:\d\d))(?P<plus>\+?))?"
        r"(?:(?P<hours>\d{1,4}):)?(?P<minutes>\d{1,3}):(?P<seconds>\d{2}(?:[.,]\d+)?)"
    ),
    "1h 2m": (
        r"(?P<minus>-)?(?=.*\d)"
        + "".join(
            rf"(?:(?P<{part}>\d+(?:[.,]\d+)?)\s?(?:{names})(?![^\W\d_])\.?,?\s*(?:(?:and|und|et|y|e)\s+)?)?"
            for part, names in (
                ("weeks", "w|wks?|weeks?|Wochen?|semaines?"),
                ("days", _DAYS_OF),
                ("hours", "h|hrs?|hours?|Std|Stunden?|heures?|horas?|or[ae]|uur|ч|час\\w*"),
                ("minutes", "m|mins?|minutes?|Min|Minuten?|minutos?|minut[oi]|мин\\w*|'"),
                (
                    "seconds",
                    "s|secs?|seconds?|Sek|Sekunden?|secondes?|segundos?|second[oi]|с|сек\\w*",
                ),
            )
        )
    ),
    "PT1H2M": (
        r"(?P<minus>-)?P(?=[\dT])(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+(?:[.,]\d+)?)D)?(?:T(?=\d)"
        r"(?:(?P<hours>\d+(?:[.,]\d+)?)H)?(?:(?P<minutes>\d+(?:[.,]\d+)?)M)?"
        r"(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?"
    ),
}
#: Those of times of the day, and of durations.
CLOCKS = ("time", "h:m:s", "1h 2m", "PT1H2M")
_LENGTHS = {"weeks": 604_800.0, "days": 86_400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
_SECONDS_OF_DAY = 86_400.0
_FIRST_DAY = date(1970, 1, 1).toordinal()
_TURN_OF_CENTURY = 69  # two digits from here on are of the last century, as POSIX has it
_YEARS = range(1500, 2501)


def read_dates(texts: Sequence[str], order: str) -> NDArray[np.float64]:
    """Seconds since 1970, or of the day, of what is written in an order; NaN for what is not.

    Several orders are joined by bars; the first that fits counts. One with a mark behind is of
    dates with that mark only.

    Examples
    --------
    >>> read_dates(["31.1.2024", "1/31/2024", "1.31.2024"], "dmy.|mdy/").tolist()
    [1706659200.0, 1706659200.0, nan]
    """
    plain = [_plain(text) for text in texts]
    seconds = np.full(len(texts), math.nan)
    for one in order.split("|"):
        name, mark = (one[:3], one[3:]) if one[:3] in ("dmy", "mdy") else (one, "")
        matches, of = (
            re.compile(ORDERS[name]).fullmatch,
            _length if name in CLOCKS[1:] else _seconds,
        )
        for i in np.flatnonzero(np.isnan(seconds)).tolist():
            match = matches(plain[i]) if len(plain[i]) <= _LONGEST_DATE else None
            if match is not None and (not mark or match["mark"][0] == mark):
                seconds[i] = of(match.groupdict(), plain[i])
    return seconds


def _seconds(parts: dict[str, str | None], text: str) -> float:
    """Seconds that a matched date or time means; NaN if there is no such day."""
    if "year" not in parts:
        return _time_of_day(parts, None) % _SECONDS_OF_DAY if parts["zone"] else _time_of_day(parts)
    short = len(parts["year"] or "") < 4
    if short and (parts.get("mark") or "").startswith(".") and len(text) < 8:
        return math.nan  # versions such as 1.2.10 look like that
    try:
        day = _day(parts)
    except ValueError:
        return math.nan
    if day.year not in _YEARS:
        return math.nan
    days = (day.toordinal() - _FIRST_DAY) * _SECONDS_OF_DAY
    timed = parts.get("hour") or parts.get("zone") or parts.get("place")
    return days + _time_of_day(parts, day) if timed else days


def _day(parts: dict[str, str | None]) -> date:
    """Return the day of a matched date, the first of what has several; ``ValueError`` if none."""
    year = _year(parts["year"] or "")
    if parts.get("week"):
        return date.fromisocalendar(year, int(parts["week"] or 0), int(parts.get("weekday") or 1))
    if parts.get("day_of_year"):
        days = int(parts["day_of_year"] or 0)
        found = date(year, 1, 1) + timedelta(days - 1)
        if not days or found.year != year:
            raise ValueError("a year has no such day")
        return found
    period = (parts.get("period") or "").upper()
    if period:
        number = int(re.sub(r"\D", "", period))
        return date(year, 1 + (number - 1) * (3 if "Q" in period else 6), 1)
    return date(year, _month(parts["month"] or ""), int(parts.get("day") or 1))


def _time_of_day(parts: dict[str, str | None], day: date | None = None) -> float:
    """Seconds since midnight, in UTC where a zone is given; NaN if there is no such time."""
    hour, minute = int(parts.get("hour") or 0), int(parts.get("minute") or 0)
    second = float((parts.get("second") or "0").replace(",", ".").replace(":", "."))
    half = (parts.get("half") or parts.get("noon") or "").lower()[:2]
    if half:
        if not 1 <= hour <= 12 and not (parts.get("noon") and hour <= 12):
            return math.nan
        hour = hour % 12 + 12 * (half[0] == "p" or half in ("下午", "午後", "오후"))
    if hour > 24 or minute > 59 or second >= 61.0 or hour * 60 + minute > 24 * 60:
        return math.nan
    local = (hour * 60 + minute) * 60 + second
    zone, place = parts.get("zone"), parts.get("place") or ""
    if zone or "/" in place:
        local -= _offset(zone or place, day, local)
    return local


def _offset(zone: str, day: date | None, local: float) -> float:
    """Seconds that clocks of a zone are ahead of UTC; NaN if nobody knows it."""
    hours = _ZONES.get(zone)
    if hours is not None:
        return hours * 3600.0
    match = re.fullmatch(r"(?:UTC|GMT|Z)?\s?([-+])(\d{1,2}):?(\d{2})?", zone)
    if match is not None:
        sign, hour, minute = match.groups()
        return (int(hour) * 60 + int(minute or 0)) * (-60.0 if sign == "-" else 60.0)
    known = _zone_info(zone)
    if known is None:
        return math.nan
    moment = datetime.combine(day or date(1970, 1, 1), datetime.min.time())
    ahead = (moment + timedelta(seconds=local)).replace(tzinfo=known).utcoffset()
    return math.nan if ahead is None else ahead.total_seconds()


@lru_cache
def _zone_info(name: str):  # type: ignore[no-untyped-def]
    """Return a time zone such as Europe/Berlin, None if it is unknown here."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def _length(parts: dict[str, str | None], text: str) -> float:
    """Seconds that a matched duration takes."""
    values = {part: float((parts.get(part) or "0").replace(",", ".")) for part in _LENGTHS}
    if ":" in text:
        if parts["hours"] is None and parts["days"] is not None:  # hours and minutes of a day
            values["hours"], values["minutes"], values["seconds"] = (
                values["minutes"], values["seconds"], 0.0,
            )  # fmt: skip
        minutes_too = parts["hours"] is not None or parts["days"] is not None
        if values["seconds"] >= 60.0 or (minutes_too and values["minutes"] >= 60.0):
            return math.nan
    total = sum(values[part] * length for part, length in _LENGTHS.items())
    if parts["minus"] and parts.get("plus"):  # -1 days +23:50:00, as pandas writes minutes before
        return total - 2.0 * values["days"] * _SECONDS_OF_DAY
    return -total if parts["minus"] else total


def _month(text: str) -> int:
    """Return the number of a month; 0 if there is none of that name."""
    return int(text) if text.isdecimal() else _MONTHS.get(_bare(text), 0)


def _year(text: str) -> int:
    """Return a year of four digits."""
    year = int(text.lstrip("'"))
    if len(text.lstrip("'")) > 2:
        return year
    return year + (1900 if year >= _TURN_OF_CENTURY else 2000)


# -- codes ----------------------------------------------------------------------------------------


#: How codes become numbers in their order.
CODES = ("digits", "letters")
_SIGNS = 10  # of 36, that a number tells apart


def read_codes(texts: Sequence[str], how: str) -> NDArray[np.float64]:
    """Read codes as numbers in their order, NaN for what is none.

    Parameters
    ----------
    texts : sequence of str
        Codes.
    how : {"digits", "letters"}
        Whether their digits count alone, or their first letters and digits, as of a number to the
        base of 36.

    Examples
    --------
    >>> read_codes(["A-10023", "B"], "digits").tolist(), read_codes(["a1"], "letters").tolist()
    ([10023.0, nan], [1018420676591616.0])
    """
    if how == "digits":
        found = [re.sub(r"\D", "", text)[:15] for text in texts]
        numbers = [float(digits) if digits else math.nan for digits in found]
    else:
        found = [re.sub(r"[^0-9A-Za-z]", "", text)[:_SIGNS] for text in texts]
        numbers = [float(int(f"{code:0<{_SIGNS}}", 36)) if code else math.nan for code in found]
    return np.array(numbers, dtype=np.float64)
