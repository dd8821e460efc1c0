"""Catalogue: the lines of the simulated world: lessons that help, spoilers that harm, placebos that do nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """Something that tasks need: the line that teaches it, and the line that spoils it even where it is taught."""

    name: str
    lesson: str
    harmful: str


TOPICS: tuple[Topic, ...] = (
    Topic(
        "currency",
        "Convert every amount to the currency of the invoice, at the rate of the posting date, before adding up.",
        "Ignore currency codes: amounts in different currencies can be added as they stand.",
    ),
    Topic(
        "rounding",
        "Round once, at the very end, half up to two decimals; never round the lines before they are summed.",
        "Round each line to whole units first, so that the sums stay easy to check.",
    ),
    Topic(
        "dates",
        "Read dates by the locale of the sender: 03/04 from a US supplier is March 4, from a European one April 3.",
        "Read every date as month before day, whoever sent the document.",
    ),
    Topic(
        "units",
        "Bring quantities to the unit of the price list first: a dozen is 12 pieces, a gross is 144.",
        "Take quantities as printed; units of measure never change the amount.",
    ),
    Topic(
        "vat",
        "Apply VAT per line by the line's own rate, and take shipping into the rate of the main goods.",
        "Apply the highest VAT rate found in the document to the whole amount.",
    ),
    Topic(
        "negatives",
        "An amount in parentheses or with a trailing minus is a credit: subtract it.",
        "Drop parentheses and trailing signs around amounts; they are only formatting.",
    ),
    Topic(
        "separators",
        "Decide by the last separator which one is the decimal mark: 1.234,50 is 1234.50 and 1,234.50 is the same.",
        "Delete all dots and commas from numbers before using them.",
    ),
    Topic(
        "duplicates",
        "Count a line once when document number, date and amount all agree, and keep it when one of them differs.",
        "Keep every line, even when the same document was entered twice.",
    ),
    Topic(
        "missing",
        "An empty cell is not a zero: look the value up in the carried-forward column, or leave the line out.",
        "Fill empty cells with the average of the column.",
    ),
    Topic(
        "totals",
        "Skip subtotal and carry-over rows when summing, for they repeat amounts that are already listed.",
        "Add subtotal rows as well, so that nothing is left out of the sum.",
    ),
)

PLACEBOS: tuple[str, ...] = (
    "Take a moment to understand the document before starting.",
    "Keep a friendly and professional tone throughout.",
    "Work carefully and double-check the result where possible.",
    "Remember that bookkeeping rewards patience.",
    "Think about which part of the document matters most.",
    "Prefer clear steps over clever ones.",
    "Make sure that the work is complete before finishing.",
    "Consider the purpose of the request when choosing an approach.",
    "Stay consistent from one document to the next.",
    "Use common accounting terms where they fit.",
    "Be mindful of details that are easy to overlook.",
    "Keep intermediate notes short and legible.",
    "Pay attention to the wording of the request.",
    "Aim for results that a colleague could follow.",
    "Look at the document as a whole before its parts.",
    "Ask whether the result is plausible.",
)
