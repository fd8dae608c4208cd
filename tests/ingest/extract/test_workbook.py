from __future__ import annotations

import datetime as dt

import pytest

from agentctx.ingest.extract.base import ExtractLimits, ExtractRefusal
from agentctx.ingest.extract.workbook import cell_text, extract_workbook
from tests.ingest.extract import samples
from tests.ingest.extract.promises import SteppingClock, extracted, extracted_or_refused, number_of, text_of

FIRST = "xl/worksheets/sheet1.xml"


def with_sheet(rows: str) -> bytes:
    """A workbook whose first sheet is this XML; it claims to be as large as can be."""
    xml = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'
    )
    return samples.repacked(samples.workbook({"A": [["x"]], "B": [["last"]]}), {FIRST: xml.encode()})


def test_rows_by_sheet() -> None:
    book = extracted("a.xlsx", samples.workbook())
    assert book.text == (
        "# Fleet\n\n| Name | Launched | Length |\n| Ann | 2024-01-31 | 12.5 |\n| Bea |  | 3 |\n\n"
        "# Notes\n\n| two lines | TRUE |"
    )
    assert book.unit == "sheet"
    assert (number_of("Bea", book), number_of("two", book)) == (1, 3)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (False, "FALSE"),
        (0.1 + 0.2, "0.3"),
        (3.0, "3"),
        (10**15, "1000000000000000"),
        (dt.datetime(2024, 1, 31, 12, 30), "2024-01-31T12:30:00"),  # noqa: DTZ001 - workbooks know no zones
        (dt.date(2024, 1, 31), "2024-01-31"),
        (dt.time(7, 5), "07:05:00"),
        (dt.timedelta(hours=30), "1 day, 6:00:00"),
        ("#REF!", "#REF!"),
    ],
)
def test_values_as_a_person_would_write_them(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_cells_beyond_the_limit_are_noted() -> None:
    data = samples.workbook({"Long": [[number, "x"] for number in range(100)], "After": [["never"]]})
    book = extract_workbook(data, ExtractLimits(cells=20))
    assert book.text.endswith("| 9 | x |")
    assert book.notes == ("left out after 20 cells: row 11 of sheet 'Long' and the rest",)
    assert extract_workbook(data, ExtractLimits(cells=201)).notes == ()


def test_the_size_a_sheet_claims_is_not_believed() -> None:
    book = extract_workbook(with_sheet('<row r="3"><c r="B3"><v>7</v></c></row>'), ExtractLimits(cells=1000))
    assert (book.text, book.notes) == ("# A\n\n|  | 7 |\n\n# B\n\n| last |", ())


@pytest.mark.parametrize(
    "row", ['<row r="999999999999"><c><v>1</v></c></row>', '<row><c r="ZZZ1"><v>1</v></c></row>' * 99]
)
def test_empty_cells_between_count_for_the_limit(row: str) -> None:
    outcome = extracted_or_refused("a.xlsx", with_sheet(row), ExtractLimits(cells=50_000))
    assert outcome == ExtractRefusal.EMPTY or "left out after 50,000 cells" in outcome.notes[0]  # type: ignore[union-attr]


def test_strings_kept_in_one_table_are_read() -> None:
    package = with_sheet('<row><c t="s"><v>1</v></c></row>')
    types = samples.part(package, "[Content_Types].xml").replace(
        b"</Types>",
        b'<Override PartName="/xl/sharedStrings.xml" ContentType="application/'
        b'vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>',
    )
    strings = (
        b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        b"<si><t>zero</t></si><si><r><t>sl</t></r><r><t>oop</t></r></si></sst>"
    )
    data = samples.repacked(package, {"[Content_Types].xml": types, "xl/sharedStrings.xml": strings})
    assert text_of("a.xlsx", data).startswith("# A\n\n| sloop |")


def test_a_date_out_of_range_is_an_error_in_its_cell_only() -> None:
    package = samples.workbook({"A": [[dt.date(2024, 1, 31), "x"]]})
    sheet = samples.part(package, FIRST)
    assert b"<v>45322</v>" in sheet
    data = samples.repacked(package, {FIRST: sheet.replace(b"<v>45322</v>", b"<v>99999999</v>")})
    assert text_of("a.xlsx", data) == "# A\n\n| #VALUE! | x |"


def test_sheets_that_are_charts_are_counted_and_left_out() -> None:
    import openpyxl.chart

    book = openpyxl.Workbook()
    book.active.append(["a"])
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=1, min_row=1))
    book.create_chartsheet("Chart", 0).add_chart(chart)
    found = extracted("a.xlsm", samples.written(book.save))
    assert found.places == ((0, 2),)


def test_a_single_row_that_takes_too_long_is_given_up() -> None:
    data = with_sheet("<row>" + "".join(f"<c><v>{number}</v></c>" for number in range(200_000)) + "</row>")
    limits = ExtractLimits(seconds=150, clock=SteppingClock())
    assert extracted_or_refused("a.xlsx", data, limits) == ExtractRefusal.TOO_SLOW


def test_a_workbook_without_values_is_empty() -> None:
    assert extracted_or_refused("a.xlsx", samples.workbook({"A": []})) == ExtractRefusal.EMPTY
