#!/usr/bin/env python3
"""Writes the files of this folder, and what is to be read from each (see README.md).

Needs nothing but Python. All files are made here: none comes from a person or a shop.
"""

import json
import pathlib
import struct
import zipfile
import zlib
from io import BytesIO
from xml.sax.saxutils import escape

FOLDER = pathlib.Path(__file__).parent
EXPECTED = FOLDER / "expected"
# A cell that does not exist.
NONE = None


def save(name, content, error=None, **expected):
    if error:
        expected["error"] = error.split(" + ")
    FOLDER.joinpath(name).write_bytes(content)
    EXPECTED.mkdir(exist_ok=True)
    text = json.dumps(expected, indent=2, ensure_ascii=False)
    EXPECTED.joinpath(f"{name}.json").write_text(text + "\n", encoding="utf-8")


def text(*lines, end="\n"):
    return "".join(line + end for line in lines)


# Workbooks.

STYLES = """<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<numFmts count="2"><numFmt numFmtId="164" formatCode="dd\\.mm\\.yyyy"/><numFmt numFmtId="165" formatCode="#,##0.00\\ &quot;EUR&quot;"/></numFmts>
<fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>
<fills count="1"><fill><patternFill patternType="none"/></fill></fills>
<borders count="1"><border/></borders>
<cellStyleXfs count="1"><xf numFmtId="0"/></cellStyleXfs>
<cellXfs count="7"><xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/><xf numFmtId="164" applyNumberFormat="1"/><xf numFmtId="1" applyNumberFormat="1"/><xf numFmtId="49" applyNumberFormat="1"/><xf numFmtId="21" applyNumberFormat="1"/><xf numFmtId="165" applyNumberFormat="1"/></cellXfs>
</styleSheet>"""
DATE, LOCAL_DATE, INTEGER, TEXT, TIME, MONEY = range(1, 7)


class Number(str):
    """A number as it is written in the file, with a style."""

    def __new__(cls, digits, style=0):
        number = super().__new__(cls, digits)
        number.style = style
        return number


class Inline(str):
    """Text in the sheet itself."""


class Error(str):
    pass


class Formula:
    """A formula with the result that it had."""

    def __init__(self, formula, result):
        self.formula, self.result = formula, result


class Rich:
    """Text of several fonts, with the reading of it (furigana), which is not part of it."""

    def __init__(self, *parts, reading=None):
        self.parts, self.reading = parts, reading

    def xml(self):
        runs = "".join(f'<r><rPr><b/></rPr><t xml:space="preserve">{escape(part)}</t></r>' for part in self.parts)
        reading = f'<rPh sb="0" eb="1"><t>{self.reading}</t></rPh>' if self.reading else ""
        return runs + reading


class Sheet:
    def __init__(self, name, rows, merged=(), state=None, hidden=(), start=1):
        self.name, self.merged, self.state, self.hidden = name, merged, state, hidden
        # By number, because rows may be left out.
        self.rows = rows if isinstance(rows, dict) else dict(enumerate(rows, start))


def letters(column):
    return (letters(column // 26 - 1) if column >= 26 else "") + chr(ord("A") + column % 26)


def cell_xml(reference, cell, strings):
    if isinstance(cell, bool):
        return f'<c r="{reference}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, Formula):
        inner = cell_xml(reference, cell.result, strings)
        if isinstance(cell.result, Inline):
            inner = f'<c r="{reference}" t="str"><v>{escape(cell.result)}</v></c>'
        return inner.replace("<v>", f"<f>{escape(cell.formula)}</f><v>", 1)
    if isinstance(cell, Number):
        return f'<c r="{reference}" s="{cell.style}"><v>{cell}</v></c>'
    if isinstance(cell, Error):
        return f'<c r="{reference}" t="e"><v>{cell}</v></c>'
    if isinstance(cell, Inline):
        return f'<c r="{reference}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
    xml = cell.xml() if isinstance(cell, Rich) else f'<t xml:space="preserve">{escape(cell)}</t>'
    if xml not in strings:
        strings.append(xml)
    return f'<c r="{reference}" t="s" s="{TEXT}"><v>{strings.index(xml)}</v></c>'


def sheet_xml(sheet, strings):
    rows = []
    for number, cells in sheet.rows.items():
        xml = [
            cell_xml(f"{letters(column)}{number}", cell, strings)
            for column, cell in enumerate(cells)
            if cell is not NONE
        ]
        hidden = ' hidden="1"' if number in sheet.hidden else ""
        rows.append(f'<row r="{number}"{hidden}>{"".join(xml)}</row>')
    merged = "".join(f'<mergeCell ref="{cells}"/>' for cells in sheet.merged)
    merged = f'<mergeCells count="{len(sheet.merged)}">{merged}</mergeCells>' if merged else ""
    return (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<sheetData>{"".join(rows)}</sheetData>{merged}</worksheet>'
    )


def archive(files):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def workbook(*sheets, date1904=False):
    strings = []
    parts = {f"xl/worksheets/sheet{at}.xml": sheet_xml(sheet, strings) for at, sheet in enumerate(sheets, 1)}
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relations = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    office = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    start = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    listed = "".join(
        f'<sheet name="{escape(sheet.name)}" sheetId="{at}"'
        f'{f""" state="{sheet.state}" """ if sheet.state else " "}r:id="rId{at}"/>'
        for at, sheet in enumerate(sheets, 1)
    )
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/sheet{at}.xml" ContentType="{office}.worksheet+xml"/>'
        for at in range(1, len(sheets) + 1)
    )
    targets = "".join(
        f'<Relationship Id="rId{at}" Type="{relations}/worksheet" Target="worksheets/sheet{at}.xml"/>'
        for at in range(1, len(sheets) + 1)
    )
    next_id = len(sheets) + 1
    if strings:
        overrides += f'<Override PartName="/xl/sharedStrings.xml" ContentType="{office}.sharedStrings+xml"/>'
        targets += f'<Relationship Id="rId{next_id}" Type="{relations}/sharedStrings" Target="sharedStrings.xml"/>'
    return archive({
        "[Content_Types].xml": f'{start}<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{office}.sheet.main+xml"/>'
        f'<Override PartName="/xl/styles.xml" ContentType="{office}.styles+xml"/>{overrides}</Types>',
        "_rels/.rels": f'{start}<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" Type="{relations}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'{start}<workbook xmlns="{main}" xmlns:r="{relations}">'
        f'<workbookPr{" date1904=" + chr(34) + "1" + chr(34) if date1904 else ""}/><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'{start}<Relationships xmlns="{package}/relationships">{targets}'
        f'<Relationship Id="rId{next_id + 1}" Type="{relations}/styles" Target="styles.xml"/></Relationships>',
        "xl/styles.xml": STYLES,
        **({"xl/sharedStrings.xml": f'{start}<sst xmlns="{main}" count="{len(strings)}" uniqueCount="{len(strings)}">'
            + "".join(f"<si>{xml}</si>" for xml in strings) + "</sst>"} if strings else {}),
        **parts,
    })


# Other kinds of files.


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def ole(*names):
    """An OLE compound file with empty streams of these names."""
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    header += struct.pack("<109I", 0, *[0xFFFFFFFF] * 108)
    table = struct.pack("<128I", 0xFFFFFFFD, 0xFFFFFFFE, *[0xFFFFFFFF] * 126)
    directory = b""
    for at, name in enumerate(["Root Entry", *names]):
        encoded = name.encode("utf-16le")
        entry = encoded.ljust(64, b"\0") + struct.pack("<HBB", len(encoded) + 2, 5 if at == 0 else 2, 1)
        entry += struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, 1 if at == 0 else 0xFFFFFFFF)
        directory += entry.ljust(116, b"\0") + struct.pack("<IQ", 0xFFFFFFFE, 0)
    return header + table + directory.ljust(512, b"\0")


# The expectations of tables that have the same two animals.

REX = {"name": "Rex", "category": "Dogs", "status": "available"}
MIA = {"name": "Mia", "category": "Cats", "status": "sold"}
OWN_COLUMNS = {"name": "name", "category": "category", "status": "status"}


def two(first=2, second=3):
    return [{"line": first, **REX}, {"line": second, **MIA}]


def write_text_files():
    german = text(
        "Tiername;Kategorie;Verkauft?;Rasse;Geschlecht;Geburtsdatum;Preis;Währung;Chipnummer;Größe",
        "Rex;Hunde;nein;Dackel;Rüde;2024-02-29;450,00;eur;276-0982 00000123;klein",
        "Mia;Katzen;Ja;;weiblich;;;;;",
        "Bär;Hunde;reserviert;;w;;1000;CHF;;groß",
        end="\r\n",
    )
    german_rows = [
        {"line": 2, "name": "Rex", "category": "Hunde", "status": "available", "breed": "Dackel", "sex": "male",
         "birthDate": "2024-02-29", "price": {"amount": 45000, "currency": "EUR"}, "microchip": "276098200000123"},
        {"line": 3, "name": "Mia", "category": "Katzen", "status": "sold", "sex": "female"},
        {"line": 4, "name": "Bär", "category": "Hunde", "status": "pending", "sex": "female",
         "price": {"amount": 100000, "currency": "CHF"}},
    ]
    german_columns = {
        "Tiername": "name", "Kategorie": "category", "Verkauft?": "status", "Rasse": "breed", "Geschlecht": "sex",
        "Geburtsdatum": "birthDate", "Preis": "price", "Währung": "currency", "Chipnummer": "microchip",
    }
    ignored = ["Größe"]
    save("semicolons.csv", german.encode(), rows=german_rows, columns=german_columns, ignored=ignored)
    save("windows-1252.csv", german.encode("cp1252"), rows=german_rows, columns=german_columns, ignored=ignored,
         encoding="windows-1252")
    save("utf-8-bom.csv", german.encode("utf-8-sig"), rows=german_rows, columns=german_columns, ignored=ignored)
    save("utf-16le.csv", b"\xff\xfe" + german.replace(";", "\t").encode("utf-16le"), rows=german_rows,
         columns=german_columns, ignored=ignored, encoding="utf-16le")
    save("utf-16be.csv", b"\xfe\xff" + german.encode("utf-16be"), rows=german_rows, columns=german_columns,
         ignored=ignored, encoding="utf-16be")
    # Some letters are beyond Latin-1, and have no zero.
    greek = text("name;category;status;notes", "Ρεξ;Dogs;available;σκύλος, ήρεμος", "Mia;Cats;sold;", end="\r\n")
    greek_rows = [{"line": 2, **REX, "name": "Ρεξ", "notes": "σκύλος, ήρεμος"}, {"line": 3, **MIA}]
    save("utf-16le-unmarked.csv", greek.encode("utf-16le"), rows=greek_rows, encoding="utf-16le")
    save("utf-16be-unmarked.csv", greek.encode("utf-16be"), rows=greek_rows, encoding="utf-16be")

    plain = ["name,category,status", "Rex,Dogs,available", "Mia,Cats,sold"]
    save("commas.csv", text(*plain).encode(), rows=two(), columns=OWN_COLUMNS)
    save("tabs.tsv", text(*plain).replace(",", "\t").encode(), rows=two(), columns=OWN_COLUMNS)
    save("cr-only.csv", text(*plain, end="\r").encode(), rows=two())
    save("crlf.csv", text(*plain, end="\r\n").encode(), rows=two())
    save("no-last-newline.csv", text(*plain).strip().encode(), rows=two())
    save("sep.csv", text("sep=;", *(line.replace(",", ";") for line in plain), end="\r\n").encode(), rows=two(3, 4))
    save("empty-rows.csv", text("", plain[0], ",,", "", plain[1], " , ,", plain[2], ",,", "").encode(), rows=two(5, 7))
    odd = b"\xff\xfe" + text(*plain).encode("utf-16le")
    save("utf-16-cut.csv", odd[:-1], error="not complete UTF-16")
    save("utf-16-half.csv", odd.replace("Mia".encode("utf-16le"), b"M\0\x3d\xd8a\0"), error="not complete UTF-16")
    # A quote that is not closed makes one cell of all lines up to the next quote.
    save("open-quote.csv", text(
        "name,category,notes",
        "Rex,Dogs,fine",
        '"A","Dogs","loud',
        'B,Dogs,quiet',
        'C,Dogs,"x"',
        "D,Dogs,",
    ).encode(), error="line 3 + quote + not closed")
    save("open-quote-last.csv", text("name,category,notes", "Rex,Dogs,", '"A",Dogs,"loud', "B,Dogs,").encode(),
         error="line 3 + quote + not closed")
    save("quoted-newlines.csv", text(
        'name,category,status,notes', 'Rex,Dogs,available,"two', 'lines, and ""quotes"""', 'Mia,Cats,sold,',
    ).encode(), rows=[{"line": 2, **REX, "notes": 'two\nlines, and "quotes"'}, {"line": 4, **MIA}])
    save("formulas.csv", text(
        "name,category,notes", "'=1+1,Dogs,'@SUM(A1)", "=1+1,Dogs,-5", "'n Sync,Dogs,O'=Malley",
    ).encode(), rows=[
        {"line": 2, "name": "=1+1", "category": "Dogs", "notes": "@SUM(A1)"},
        {"line": 3, "name": "=1+1", "category": "Dogs", "notes": "-5"},
        {"line": 4, "name": "'n Sync", "category": "Dogs", "notes": "O'=Malley"},
    ])
    save("title.csv", text("Our animals,,", ",,", "July 2026,,", "", *plain).encode(), rows=two(6, 7))
    save("blanks.csv", text(
        " name , Category,Breed ,description", "  Rex ,\tDogs  ,\u00a0Beagle\u00a0,  kept as it is ",
    ).encode(), rows=[
        {"line": 2, "name": "Rex", "category": "Dogs", "breed": "Beagle", "description": "  kept as it is "},
    ])
    save("errors.csv", text(
        "name,category,status,Age", "Rex,Dogs,available,#DIV/0!", "#N/A,Dogs,sold,1", "Tom,#NV,,", "#1,Dogs,,",
    ).encode(), rows=[{"line": 2, **REX}, {"line": 5, "name": "#1", "category": "Dogs"}], ignored=["Age"],
         invalid=[{"line": 3, "mentions": "#N/A"}, {"line": 4, "mentions": "#NV"}])
    save("own-words-win.csv", text(
        "Tiername,name,Kategorie,categoryId,category", "no,Rex,no,7,Dogs",
    ).encode(), rows=[{"line": 2, "name": "Rex", "categoryId": 7, "category": "Dogs"}],
         columns={"name": "name", "categoryId": "categoryId", "category": "category"}, ignored=["Tiername", "Kategorie"])
    save("two-names.csv", text("Pet Name,Tiername,Species", "Rex,Rex,Dog").encode(), error="Pet Name + Tiername")
    save("two-statuses.csv", text("name,category,Verkauft?,Reserviert?", "Rex,Dog,no,yes").encode(), error="Verkauft? + Reserviert?")
    save("no-category.csv", text("Name;Alter", "Rex;3").encode(), error="Name + Alter")
    save("no-header.csv", text("Rex,Dogs", "Mia,Cats").encode(), error="Rex + Dogs")
    save("empty.csv", b"", error="empty")
    save("too-many-cells.csv", text("name,category", "Rex,Dogs,available", "Mia,Cats,,").encode(),
         rows=[{"line": 3, "name": "Mia", "category": "Cats"}], invalid=[{"line": 2, "mentions": "cells"}])
    save("invalid.csv", text(
        "Pet Name,Type,Status,Sex,Date of birth,Price,Currency", "Rex,Dog,lost,,,,", "Mia,Cat,,none,,,",
        "Tom,Cat,,,31.13.2024,,", "Bo,Cat,,,,12,", ",Cat,,,,,", "Max,,,,,,", "Ann,Cat,in stock,girl,2024-12-31,12.5,usd",
    ).encode(), rows=[{"line": 8, "name": "Ann", "category": "Cat", "status": "available", "sex": "female",
                       "birthDate": "2024-12-31", "price": {"amount": 1250, "currency": "USD"}}],
         invalid=[{"line": line} for line in range(2, 8)])
    save("mapped.csv", text(
        "Wie heißt es?,Was ist es?,Wo?,Preis,Zustand", "Rex,Dogs,Kennel 4,VB,für Anna", "Mia,Cats,,,weg",
    ).encode(), options={
        "columns": {"wie heisst es": "name", "Was ist es?": "category", "Wo?": "metadata.Ort", "Preis": ""},
        "values": {"Für Anna": "pending", "weg": "sold"},
    }, rows=[
        {"line": 2, "name": "Rex", "category": "Dogs", "status": "pending", "metadata": {"Ort": "Kennel 4"}},
        {"line": 3, **MIA},
    ], ignored=["Preis"])
    write_prices()
    write_dates()
    save("control-characters.csv", text(
        "name,category,Other", "Re\x01x,Dogs,", "Mia,Cats,\x02", "Tom,Dogs,\0",
    ).encode(), rows=[{"line": 3, "name": "Mia", "category": "Cats"}, {"line": 4, "name": "Tom", "category": "Dogs"}],
         invalid=[{"line": 2, "mentions": "control characters"}], ignored=["Other"])
    save("nul.csv", b"name,category\0\nRex,Dogs\n", error="NUL")
    save("padded-ids.csv", text(
        "id,name,category", "007,Rex,Dogs", "0,Mia,Cats", "+7,Tom,Dogs",
    ).encode(), rows=[{"line": 2, "id": 7, "name": "Rex", "category": "Dogs"}],
         invalid=[{"line": 3}, {"line": 4}])
    save("large-ids.csv", text(
        "id,name,category,status", "9007199254740991,Rex,Dogs,available", "9007199254740992,Mia,Cats,sold",
        "99999999999999999999,Mia,Cats,sold",
    ).encode(), rows=[{"line": 2, "id": 9007199254740991, **REX}],
         invalid=[{"line": 3, "mentions": "id"}, {"line": 4, "mentions": "id"}])
    save("wrong-mapping.csv", text("Tier,Art", "Rex,Dogs").encode(), options={"columns": {"Foo": "status"}}, error="Foo")
    save("default-status.csv", text("name,category,status", "Rex,Dogs,", "Mia,Cats,sold").encode(),
         options={"defaultStatus": "available"}, rows=two())
    save("default-status-only.csv", text("name,category", "Rex,Dogs").encode(),
         options={"defaultStatus": "available"}, rows=[{"line": 2, **REX}])
    save("french.csv", text(
        "Nom;Espèce;Vendu ?;Sexe;Date de naissance;N° de puce;Prix;Devise;Éleveur",
        "Félix;Chats;oui;mâle;2024-01-31;250268500000001;12,50;EUR;Élevage du Lac", "Léa;Chats;non;femelle;;;;;",
    ).encode("cp1252"), encoding="windows-1252", rows=[
        {"line": 2, "name": "Félix", "category": "Chats", "status": "sold", "sex": "male", "birthDate": "2024-01-31",
         "microchip": "250268500000001", "price": {"amount": 1250, "currency": "EUR"}, "source": {"name": "Élevage du Lac"}},
        {"line": 3, "name": "Léa", "category": "Chats", "status": "available", "sex": "female"},
    ])
    save("spanish.csv", text(
        "Nombre;Especie;Estado;Sexo;Fecha de nacimiento", "Toño;Perros;Reservado;macho;2024-01-31", "Luz;Perros;En venta;hembra;",
    ).encode(), rows=[
        {"line": 2, "name": "Toño", "category": "Perros", "status": "pending", "sex": "male", "birthDate": "2024-01-31"},
        {"line": 3, "name": "Luz", "category": "Perros", "status": "available", "sex": "female"},
    ])
    save("italian.csv", text(
        "Nome;Specie;Disponibilità;Sesso;Razza", "Fido;Cani;sì;maschio;Bracco", "Lola;Cani;venduta;femmina;",
    ).encode(), rows=[
        {"line": 2, "name": "Fido", "category": "Cani", "status": "available", "sex": "male", "breed": "Bracco"},
        {"line": 3, "name": "Lola", "category": "Cani", "status": "sold", "sex": "female"},
    ])
    save("dutch.csv", text(
        "Naam;Diersoort;Verkocht;Geslacht;Opmerkingen", "Snuf;Konijnen;nee;vrouwtje;lief", "Bram;Konijnen;x;reu;",
    ).encode(), rows=[
        {"line": 2, "name": "Snuf", "category": "Konijnen", "status": "available", "sex": "female", "notes": "lief"},
        {"line": 3, "name": "Bram", "category": "Konijnen", "status": "sold", "sex": "male"},
    ])


def prices(name, written, found, invalid=(), delimiter=";", **options):
    """A table of prices: those found are by their row, in the smallest unit and with their currency."""
    rows = [f"Animal {at}{delimiter}Dogs{delimiter}{price}" for at, price in enumerate(written)]
    save(name, text(delimiter.join(["Name", "Art", "Preis"]), *rows).encode(), options=options, rows=[
        {"line": at + 2, "name": f"Animal {at}", "category": "Dogs", "price": {"amount": amount, "currency": currency}}
        for at, (amount, currency) in found.items()
    ], invalid=[{"line": at + 2, **({"mentions": mention} if mention else {})} for at, mention in dict(invalid).items()])


def write_prices():
    euros = {"shopCurrency": "EUR"}
    prices("prices-comma.csv", ["1.234,56", "1.450", "12,5", "2.000.000,00", "1 450", "950", "12.345"],
           {at: (amount, "EUR") for at, amount in enumerate([123456, 145000, 1250, 200000000, 145000, 95000, 1234500])}, **euros)
    prices("prices-point.csv", ["1,234.56", "1,450", "12.5", "$1,000.00", "1'450.00", "1,450,000"],
           {at: (amount, "USD") for at, amount in enumerate([123456, 145000, 1250, 100000, 145000, 145000000])},
           currency="USD", shopCurrency="EUR")
    # Each price that is clear by itself is read, and the others are not guessed.
    prices("prices-mixed.csv", ["12.50", "13,00", "1.234,56", "1,450", "1.450"],
           {0: (1250, "EUR"), 1: (1300, "EUR"), 2: (123456, "EUR")}, {3: "1,450", 4: "1.450"}, **euros)
    prices("prices-ambiguous.csv", ["1,450", "950"], {1: (95000, "EUR")}, {0: "may be"}, **euros)
    prices("prices-three-decimals.csv", ["0,450", "1,450", "12"], {2: (1200, "EUR")}, {0: None, 1: None}, **euros)
    prices("prices-yen.csv", ["1,450", "1.450", "950"], {0: (1450, "JPY"), 1: (1450, "JPY"), 2: (950, "JPY")}, shopCurrency="JPY")
    prices("prices-dinars.csv", ["1.450", "1,450", "0.5"], {0: (1450, "KWD"), 1: (1450000, "KWD"), 2: (500, "KWD")}, shopCurrency="KWD")
    prices("prices-signs.csv", ["1450 €", "€ 5", "5 US$", "chf 5.50", "5 $", "5 x", "- 5", "5", "Fr. 7"],
           {0: (145000, "EUR"), 1: (500, "EUR"), 2: (500, "USD"), 3: (550, "CHF"), 8: (700, "CHF")},
           {4: None, 5: None, 6: None, 7: None})
    prices("prices-dollars.csv", ["5 $", "5 €", "5"], {0: (500, "CAD"), 1: (500, "EUR"), 2: (500, "CAD")}, shopCurrency="CAD")
    save("prices-by-row.csv", text(
        "name,category,price,currency", "A,Dogs,5,usd", "B,Dogs,5,", "C,Dogs,,", "D,Dogs,5 €,USD", "E,Dogs,5 €,",
    ).encode(), options=euros, rows=[
        {"line": 2, "name": "A", "category": "Dogs", "price": {"amount": 500, "currency": "USD"}},
        {"line": 4, "name": "C", "category": "Dogs"},
        {"line": 6, "name": "E", "category": "Dogs", "price": {"amount": 500, "currency": "EUR"}},
    ], invalid=[{"line": 3, "mentions": "urrency"}, {"line": 5, "mentions": "USD"}])
    # The numbers of a workbook have a decimal point, whatever the texts beside them have.
    save("prices.xlsx", workbook(Sheet("Animals", [
        ["name", "category", "price"], ["A", "Dogs", Number("1234.5", MONEY)], ["B", "Dogs", "1.234,56 €"],
        ["C", "Dogs", Number("12.345")], ["D", "Dogs", "1,450"],
    ])), options=euros, rows=[
        {"line": 2, "name": "A", "category": "Dogs", "price": {"amount": 123450, "currency": "EUR"}},
        {"line": 3, "name": "B", "category": "Dogs", "price": {"amount": 123456, "currency": "EUR"}},
    ], invalid=[{"line": 4}, {"line": 5}])


def dates(name, written, found, invalid=(), **options):
    """A table of dates of birth: those found are by their row."""
    rows = [f"Animal {at},Dogs,{date}" for at, date in enumerate(written)]
    save(name, text("name,category,birthDate", *rows).encode(), options=options, rows=[
        {"line": at + 2, "name": f"Animal {at}", "category": "Dogs", "birthDate": date} for at, date in found.items()
    ], invalid=[{"line": at + 2, "mentions": mention} for at, mention in dict(invalid).items()])


def write_dates():
    member = "birthDate"
    unclear = "the day or the month first"
    dates("dates-points.csv", ["31.12.2020", " 5.6.2020 ", "05.06.2020", "12.31.2020", "31.12.20", "31. 12. 2020", "0.1.2020",
                               "31.12/2020", "30.02.2020"],
          {0: "2020-12-31", 1: "2020-06-05", 2: "2020-06-05"}, {at: member for at in range(3, 9)})
    dates("dates-day-first.csv", ["05/06/2020", "31/12/2020", "1/2/2020", "5-6-2020", "31-12-2020", "12/13/20", "31/02/2020",
                                  "13/13/2020"],
          {0: "2020-06-05", 1: "2020-12-31", 2: "2020-02-01", 3: "2020-06-05", 4: "2020-12-31"}, {5: member, 6: member, 7: member})
    dates("dates-month-first.csv", ["05/06/2020", "12/31/2020", "1/2/2020", "12-31-2020", "31.12.2020", "2020-12-31"],
          {0: "2020-05-06", 1: "2020-12-31", 2: "2020-01-02", 3: "2020-12-31", 4: "2020-12-31", 5: "2020-12-31"})
    dates("dates-hyphens.csv", ["5-6-2020", "31-12-2020"], {0: "2020-06-05", 1: "2020-12-31"})
    dates("dates-year-first.csv", ["2020/12/31", "2020.1.31", "2020-1-31", "2020/31/12", "2020-1-1T00:00"],
          {0: "2020-12-31", 1: "2020-01-31", 2: "2020-01-31"}, {3: member, 4: member})
    # What has one reading is read, and the others are not guessed: points and equal numbers tell nothing.
    unclear_dates = ["05/06/2020", "07-08-2020", "31.12.2020", "05/05/2020"]
    dates("dates-ambiguous.csv", unclear_dates, {2: "2020-12-31", 3: "2020-05-05"}, {0: unclear, 1: "05/06/2020"})
    dates("dates-chosen-dmy.csv", unclear_dates, dict(enumerate(["2020-06-05", "2020-08-07", "2020-12-31", "2020-05-05"])),
          dateOrder="dmy")
    dates("dates-chosen-mdy.csv", unclear_dates, dict(enumerate(["2020-05-06", "2020-07-08", "2020-12-31", "2020-05-05"])),
          dateOrder="mdy")
    mixed = ["31/12/2020", "12/31/2020", "05/06/2020"]
    dates("dates-mixed.csv", mixed, {0: "2020-12-31", 1: "2020-12-31"}, {2: unclear})
    dates("dates-mixed-chosen.csv", mixed, {0: "2020-12-31", 1: "2020-12-31", 2: "2020-06-05"}, dateOrder="dmy")
    # The column tells more than the choice.
    dates("dates-column-wins.csv", mixed[1:], {0: "2020-12-31", 1: "2020-05-06"}, dateOrder="dmy")
    # A row that is invalid for another reason still tells the order, and each column has its own.
    save("dates-by-column.csv", text(
        "name,category,birthDate,acquired", "Rex,Dogs,05/06/2020,05/06/2020", ",Dogs,31/12/2019,", "Mia,Cats,05/06/2020,",
    ).encode(), rows=[{"line": 4, "name": "Mia", "category": "Cats", "birthDate": "2020-06-05"}],
         invalid=[{"line": 2, "mentions": "acquiredOn"}, {"line": 3}])
    save("dates-as-text.xlsx", workbook(Sheet("Animals", [
        ["name", "category", "birthDate"], ["A", "Dogs", "31.12.2020"], ["B", "Dogs", "12/31/2020"], ["C", "Dogs", "05/06/2020"],
        ["D", "Dogs", Number("45351", DATE)],
    ])), rows=[
        {"line": at, "name": name, "category": "Dogs", "birthDate": date}
        for at, name, date in [(2, "A", "2020-12-31"), (3, "B", "2020-12-31"), (4, "C", "2020-05-06"), (5, "D", "2024-02-29")]
    ])


def write_workbooks():
    head = ["name", "category", "status"]
    rex, mia = ["Rex", "Dogs", "available"], ["Mia", "Cats", "sold"]
    plain = [head, rex, mia]
    save("plain.xlsx", workbook(Sheet("Animals", plain)), rows=two(), columns=OWN_COLUMNS, sheet="Animals")
    save("inline.xlsx", workbook(Sheet("Animals", [[Inline(cell) for cell in row] for row in plain])), rows=two())
    save("rich-text.xlsx", workbook(Sheet("Animals", [
        [Rich("na", "me"), "category"], [Rich("犬 ", "Rex & <Co>", reading="いぬ"), Rich("Dogs")],
    ])), rows=[{"line": 2, "name": "犬 Rex & <Co>", "category": "Dogs"}])
    save("title.xlsx", workbook(Sheet("Bestand", {
        1: ["Bestand der Zoohandlung"], 2: ["Stand: Juli 2026", NONE, "intern"], 4: ["Tiername", "Tierart", "Verfügbarkeit"],
        5: ["Rex", "Dogs", "verfügbar"], 6: ["Mia", "Cats", "verkauft"],
    }, merged=["A1:C1"])), rows=two(5, 6), columns={"Tiername": "name", "Tierart": "category", "Verfügbarkeit": "status"})
    save("merged-groups.xlsx", workbook(Sheet("Tiere", [
        ["Tier", NONE, NONE, "Verkauf"], ["Name", "Tierart", "Rasse", "Preis", "Währung"],
        ["Rex", "Dogs", "Beagle", Number("450"), "EUR"],
    ], merged=["A1:C1", "D1:E1"])), rows=[
        {"line": 3, "name": "Rex", "category": "Dogs", "breed": "Beagle", "price": {"amount": 45000, "currency": "EUR"}},
    ])
    save("merged-header.xlsx", workbook(Sheet("Tiere", [
        ["Name", "Angaben", NONE, "Verkauf"], [NONE, "Tierart", "Rasse", "Betrag", "Währung"],
        ["Rex", "Dogs", "Beagle", Number("450"), "EUR"],
    ], merged=["A1:A2", "B1:C1", "D1:E1"])), rows=[
        {"line": 3, "name": "Rex", "category": "Dogs", "breed": "Beagle", "price": {"amount": 45000, "currency": "EUR"}},
    ], columns={"Name": "name", "Tierart": "category", "Rasse": "breed", "Betrag": "price", "Währung": "currency"})
    save("formulas.xlsx", workbook(Sheet("Animals", [
        ["name", "categoryId", "price", "currency", "status"],
        [Formula('CONCATENATE("Re","x")', Inline("Rex")), Formula("1+2", Number("3")),
         Formula("19.99*1", Number("19.990000000000002")), "EUR", Formula('"sold"', Inline("sold"))],
    ])), rows=[{"line": 2, "name": "Rex", "categoryId": 3, "price": {"amount": 1999, "currency": "EUR"}, "status": "sold"}])
    dates = ["name", "category", "birthDate", "acquired", "notes"]
    save("dates-1900.xlsx", workbook(Sheet("Animals", [
        dates,
        ["first", "Dogs", Number("1", DATE), Number("45292", LOCAL_DATE), Number("0.5", TIME)],
        ["before the leap day", "Dogs", Number("59", DATE)],
        ["after the leap day", "Dogs", Number("61", DATE)],
        ["leap day", "Dogs", Number("45351.75", DATE)],
        ["as text", "Dogs", "2024-02-29"],
        ["no such day", "Dogs", Number("60", DATE)],
        ["not a date", "Dogs", Number("45351")],
    ])), rows=[
        {"line": 2, "name": "first", "category": "Dogs", "birthDate": "1900-01-01", "acquiredOn": "2024-01-01",
         "notes": "12:00:00"},
        {"line": 3, "name": "before the leap day", "category": "Dogs", "birthDate": "1900-02-28"},
        {"line": 4, "name": "after the leap day", "category": "Dogs", "birthDate": "1900-03-01"},
        {"line": 5, "name": "leap day", "category": "Dogs", "birthDate": "2024-02-29"},
        {"line": 6, "name": "as text", "category": "Dogs", "birthDate": "2024-02-29"},
    ], invalid=[{"line": 7, "mentions": "birthDate"}, {"line": 8, "mentions": "birthDate"}])
    save("dates-1904.xlsx", workbook(Sheet("Animals", [
        dates,
        ["second", "Dogs", Number("1", DATE), Number("43830", LOCAL_DATE)],
        ["leap day of 1904", "Dogs", Number("59", DATE)],
        ["leap day", "Dogs", Number("43889.75", DATE)],
    ]), date1904=True), rows=[
        {"line": 2, "name": "second", "category": "Dogs", "birthDate": "1904-01-02", "acquiredOn": "2024-01-01"},
        {"line": 3, "name": "leap day of 1904", "category": "Dogs", "birthDate": "1904-02-29"},
        {"line": 4, "name": "leap day", "category": "Dogs", "birthDate": "2024-02-29"},
    ])
    save("numbers.xlsx", workbook(Sheet("Animals", [
        ["name", "categoryId", "microchip", "price", "currency", "metadata.weight"],
        [Number("7"), Number("3"), Number("276098200000123"), Number("450.5", MONEY), "EUR", Number("0.1")],
        [Number("1.5E3"), "3", "276 098 200 000 124", "450.50", "EUR", Number("0.30000000000000004")],
        ["big", Number("9007199254740991"), Number("2.76098200000125E14", INTEGER), Number("99", MONEY), "JPY", Number("-2")],
    ])), rows=[
        {"line": 2, "name": "7", "categoryId": 3, "microchip": "276098200000123",
         "price": {"amount": 45050, "currency": "EUR"}, "metadata": {"weight": "0.1"}},
        {"line": 3, "name": "1500", "categoryId": 3, "microchip": "276098200000124",
         "price": {"amount": 45050, "currency": "EUR"}, "metadata": {"weight": "0.3"}},
        {"line": 4, "name": "big", "categoryId": 9007199254740990, "microchip": "276098200000125",
         "price": {"amount": 99, "currency": "JPY"}, "metadata": {"weight": "-2"}},
    ])
    save("booleans.xlsx", workbook(Sheet("Animals", [
        ["name", "category", "Sold?", "metadata.tame"], ["Rex", "Dogs", False, True], ["Mia", "Cats", True, False], ["Tom", "Cats"],
    ])), rows=[
        {"line": 2, **REX, "metadata": {"tame": "TRUE"}}, {"line": 3, **MIA, "metadata": {"tame": "FALSE"}},
        {"line": 4, "name": "Tom", "category": "Cats"},
    ])
    save("errors.xlsx", workbook(Sheet("Animals", [
        head + ["Age"], rex + [Error("#DIV/0!")], ["Tom", Formula("VLOOKUP(1,A:A,1)", Error("#N/A")), "sold"], [Error("#REF!"), "Cats"],
    ])), rows=[{"line": 2, **REX}], invalid=[{"line": 3, "mentions": "#N/A"}, {"line": 4, "mentions": "#REF!"}], ignored=["Age"])
    save("empty-sheets.xlsx", workbook(Sheet("Sheet1", []), Sheet("Sheet2", [[""], [" "]]), Sheet("Sheet3", plain)),
         rows=two(), sheet="Sheet3", otherSheets=["Sheet1", "Sheet2"])
    other = Sheet("Readme", [["This workbook"], ["has our animals."]])
    sold = Sheet("Sold & gone", [head, ["Leo", "Cats", "sold"]])
    save("several-sheets.xlsx", workbook(other, Sheet("Animals", plain), sold), rows=two(), sheet="Animals",
         otherSheets=["Readme", "Sold & gone"])
    save("chosen-sheet.xlsx", workbook(other, Sheet("Animals", plain), sold), options={"sheet": "Sold & gone"},
         rows=[{"line": 2, "name": "Leo", "category": "Cats", "status": "sold"}], sheet="Sold & gone",
         otherSheets=["Readme", "Animals"])
    save("no-such-sheet.xlsx", workbook(other, Sheet("Animals", plain)), options={"sheet": "Cats"}, error="Readme + Animals")
    save("hidden-sheet.xlsx", workbook(Sheet("Old", [head, ["Leo", "Cats", "sold"]], state="hidden"), Sheet("Animals", plain)),
         rows=two(), sheet="Animals", otherSheets=["Old"])
    save("hidden-rows.xlsx", workbook(Sheet("Animals", plain, hidden=[2])), rows=two())
    save("trailing-rows.xlsx", workbook(Sheet("Animals", plain + [["", " ", NONE], [], [NONE, "", ""]])), rows=two())
    save("unnamed-column.xlsx", workbook(Sheet("Animals", [head, rex + ["ask Ann"], mia])), rows=two(), ignored=[])
    save("far-from-the-corner.xlsx", workbook(Sheet("Animals", {
        10: [NONE, NONE, "name", NONE, "category", "status"], 11: [NONE, NONE, "Rex", NONE, "Dogs", "available"],
        1000: [NONE, NONE, "Mia", NONE, "Cats", "sold"],
    })), rows=two(11, 1000))
    save("no-table.xlsx", workbook(other), error="no sheet has a table")
    save("empty.xlsx", workbook(Sheet("Sheet1", [])), error="empty")
    # The content decides, not the name.
    save("workbook.csv", workbook(Sheet("Animals", plain)), rows=two(), sheet="Animals")
    save("text.xlsx", text("name,category,status", "Rex,Dogs,available", "Mia,Cats,sold").encode(), rows=two())
    save("damaged.xlsx", archive({"xl/workbook.xml": "<workbook>"}), error="damaged")


def write_other_kinds():
    save("picture.png", png(), error="PNG")
    save("picture.csv", png(), error="PNG")
    jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00\xff\xd9"
    save("picture.jpg", jpeg, error="JPEG")
    save("document.pdf", b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n", error="PDF")
    save("old.xls", ole("Workbook"), error=".xls")
    save("password.xlsx", ole("EncryptionInfo", "EncryptedPackage"), error="password")
    save("document.doc", ole("WordDocument", "1Table"), error="Word")
    save("document.docx", archive({"[Content_Types].xml": "<Types/>", "word/document.xml": "<w:document/>"}), error="Word")
    save("sheet.ods", archive({
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet", "content.xml": "<office:document-content/>",
    }), error="OpenDocument")
    save("sheet.numbers", archive({"Index/Document.iwa": "", "Metadata/Properties.plist": ""}), error="Numbers")
    save("archive.zip", archive({"animals.csv": text("name,categoryId", "Rex,1")}), error="ZIP")
    save("archive.xlsx", archive({"animals.csv": text("name,categoryId", "Rex,1")}), error="ZIP")
    save("page.html", b"<!DOCTYPE html>\n<html><body><table><tr><td>name</td></tr></table></body></html>\n", error="HTML")
    save("page.xls", b"<html><body><table><tr><td>name</td></tr></table></body></html>\n", error="HTML")


write_text_files()
write_workbooks()
write_other_kinds()
