"""Make `form.pdf` and `mixed.pdf` beside this: `pip install reportlab`, then `python make.py`."""

from pathlib import Path

from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

HERE = Path(__file__).parent


def form():
    """A form with labels left of, right of and above its fields, and a field without one."""
    page = Canvas(str(HERE / "form.pdf"), pagesize=(400, 400))
    fields = page.acroForm
    page.drawString(20, 350, "Name of tenant:")
    fields.textfield(name="tenant", value="Ada Example", x=130, y=342, width=150, height=20)
    page.drawString(20, 310, "Rent:")
    fields.textfield(name="rent", value="1234 euros", x=130, y=302, width=150, height=20)
    page.drawString(20, 270, "Pets allowed:")
    fields.checkbox(name="pets", checked=True, x=130, y=265, size=15)
    fields.checkbox(name="kids", checked=False, x=20, y=225, size=15)
    page.drawString(45, 228, "Children")
    page.drawString(20, 190, "Notice:")
    months = ["three months", "six months"]
    fields.choice(name="notice", value="six months", options=months, x=130, y=182, width=120, height=20)
    page.drawString(20, 150, "Address")
    fields.textfield(name="address", value="5 Example Street", x=20, y=125, width=200, height=20)
    fields.textfield(name="free", tooltip="Remarks", value="Needs paint", x=300, y=20, width=80, height=20)
    page.drawString(20, 60, "Signed.")
    page.showPage()
    page.save()


def mixed():
    """Three pages, of which the second is a picture."""
    page = Canvas(str(HERE / "mixed.pdf"), pagesize=(400, 400))
    page.drawString(20, 350, "First page.")
    page.showPage()
    page.drawImage(ImageReader(Image.new("RGB", (50, 50), "red")), 20, 20, 300, 300)
    page.showPage()
    page.drawString(20, 350, "Third page.")
    page.showPage()
    page.save()


form()
mixed()
