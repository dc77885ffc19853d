"""Pictures for the documents, as SVG for light and for dark pages. Used by tools/draw_*.py.

Colours are classes, and a media query changes them, so that a viewer that knows neither CSS variables nor
media queries shows the light picture.
"""

from html import escape

FONT = 'system-ui, "Segoe UI", Helvetica, Arial, sans-serif'
MONO = "ui-monospace, Menlo, Consolas, monospace"

# By what is coloured: light, dark.
COMMON_COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "text": ("#1f2328", "#e6edf3"),
    "soft": ("#57606a", "#a5afba"),
    "line": ("#8c959f", "#6e7681"),
}


class Picture:
    def __init__(self, width, height, label, colours, text_rules=""):
        """colours: more of them, by name. text_rules: CSS for classes of text."""
        self.width, self.height, self.label = width, height, label
        self.colours = {**COMMON_COLOURS, **colours}
        self.text_rules = text_rules
        self.parts = []

    def box(self, x, y, width, height, colour, corner=7, outlined=True):
        outline = " outlined" if outlined else ""
        self.parts.append(f'<rect class="{colour}{outline}" x="{x:g}" y="{y:g}" width="{width:g}" '
                          f'height="{height:g}" rx="{corner}"/>')

    def text(self, x, y, words, style="text", anchor="middle"):
        self.parts.append(f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">'
                          f"{escape(words)}</text>")

    def line(self, x1, y1, x2, y2, colour="text", width=1.6, dashes=""):
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(f'<path class="{colour}-stroke" stroke-width="{width}"{dashed} '
                          f'd="M{x1:g} {y1:g} L{x2:g} {y2:g}"/>')

    def path(self, shape, colour):
        self.parts.append(f'<path class="{colour}" d="{shape}"/>')

    def arrow(self, x1, y1, x2, y2):
        """Straight up, down, left or right."""
        across = x1 != x2
        step = 9 if (x2 > x1 or y2 > y1) else -9
        base = (x2 - step, y2) if across else (x2, y2 - step)
        self.line(x1, y1, *base)
        sides = ([(base[0], y2 - 5), (base[0], y2 + 5)] if across
                 else [(x2 - 5, base[1]), (x2 + 5, base[1])])
        points = " ".join(f"{x:g},{y:g}" for x, y in [(x2, y2), *sides])
        self.parts.append(f'<polygon class="text" points="{points}"/>')

    def style(self):
        def rules(which):
            return "\n".join(f".{name} {{ fill: {colours[which]}; }} "
                             f".{name}-stroke {{ stroke: {colours[which]}; fill: none; }}"
                             for name, colours in self.colours.items())

        def outline(which):
            return f".outlined {{ stroke: {self.colours['line'][which]}; stroke-width: 1; }}"

        return (f"{rules(0)}\n{outline(0)}\n"
                f"@media (prefers-color-scheme: dark) {{\n{rules(1)}\n{outline(1)}\n}}\n"
                f"text {{ font-family: {FONT}; font-size: 14px; }}\n{self.text_rules}")

    def svg(self):
        body = "\n".join(self.parts)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img" aria-label="{escape(self.label)}">\n'
                f"<style>\n{self.style()}</style>\n"
                f'<rect class="page" width="{self.width}" height="{self.height}" rx="10"/>\n'
                f"{body}\n</svg>\n")
