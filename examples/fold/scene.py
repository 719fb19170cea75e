"""The picture that the demo works on, and what the kernel must make of it, in NumPy alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.float32]

HEIGHT, WIDTH = 320, 480

# Letters of five columns and nine rows, the last two below the line; a row is the bits of its columns.
_LETTERS = {
    "O": "01110 10001 10001 10001 10001 10001 01110 00000 00000",
    "p": "00000 00000 11110 10001 10001 10001 11110 10000 10000",
    "e": "00000 00000 01110 10001 11111 10000 01110 00000 00000",
    "n": "00000 00000 10110 11001 10001 10001 10001 00000 00000",
    "N": "10001 11001 10101 10101 10011 10001 10001 00000 00000",
    "K": "10001 10010 10100 11000 10100 10010 10001 00000 00000",
    "I": "01110 00100 00100 00100 00100 00100 01110 00000 00000",
}


def draw_scene() -> Picture:
    """Return a landscape `[320, 480]`, sun, ridges, lake and a word, from 0 (black) to 1 (white)."""
    row, column = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float64)
    scene = 0.55 + 0.4 * row / HEIGHT
    distance = np.hypot(row - 70, column - 370)
    scene += 0.35 * np.exp(-distance / 40)
    scene[distance < 34] = 1.0
    far = 150 + 26 * np.sin(column / 47) + 13 * np.sin(column / 19 + 1)
    scene[row > far] = 0.5
    near = 195 + 30 * np.sin(column / 71 + 2) + 9 * np.sin(column / 13)
    scene[row > near] = 0.28
    lake = row > 258
    waves = 0.09 * np.sin(row * 0.9 + 2.5 * np.sin(column / 23)) * (row - 250) / 70
    shine = 0.35 * np.exp(-(((column - 370) / (18 + (row - 258) * 0.5).clip(1)) ** 2))
    scene = np.where(lake, 0.42 + waves + shine, scene)
    word = _word("OpenNKI", scale=10)
    top, left = (HEIGHT - word.shape[0]) // 2, (WIDTH - word.shape[1]) // 2
    area = scene[top : top + word.shape[0], left : left + word.shape[1]]
    area[word] = 0.03
    clipped: Picture = np.clip(scene, 0, 1).astype(np.float32)
    return clipped


def _word(text: str, scale: int) -> npt.NDArray[np.bool_]:
    """Return `text` as a bit map, each dot of a letter `scale` pixels wide and high."""
    blank = np.zeros((9, 1), np.bool_)
    columns = [blank]
    for letter in text:
        columns += [np.array([[bit == "1" for bit in line] for line in _LETTERS[letter].split()]), blank]
    return np.kron(np.hstack(columns), np.ones((scale, scale), np.bool_))


def expected(picture: Picture) -> npt.NDArray[np.float64]:
    """Return what the kernel must give, in float64: the tones folded at middle grey, less the edges."""
    x = picture.astype(np.float64)
    down = np.abs(np.diff(x, axis=0, append=x[-1:]))
    across = np.abs(np.diff(x, axis=1, prepend=x[:, :1]))
    folded: npt.NDArray[np.float64] = np.maximum(np.abs(2 * x - 1) - 2 * down - 2 * across, 0)
    return folded
