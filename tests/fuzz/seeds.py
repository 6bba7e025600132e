#!/usr/bin/env python3
"""Writes the inputs that the fuzz targets begin with: the vectors, the shipped catalog entry by
entry, and the words of both.
usage: seeds.py FOLDER"""
import hashlib
import json
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]


def write(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(content).hexdigest()[:16]).write_bytes(content)


def main():
    folder = pathlib.Path(sys.argv[1])
    vectors = (TOP / "tests/cases/argv-vectors.jsonl").read_text(encoding="utf-8")
    catalog = (TOP / "sandbox-profiles/catalog.toml").read_text(encoding="utf-8")
    words = set(re.findall(r'[A-Za-z_-]{2,32}|"[^" ]{1,32}"', catalog))
    for row in map(json.loads, vectors.splitlines()):
        if "line" in row:
            write(folder / "line", row["line"].encode())
            continue
        write(folder / "argv", "\0".join(row["argv"]).encode())
        write(folder / "line", " ".join(row["argv"]).encode())
        words.update(word for word in row["argv"] if 1 < len(word) <= 32)
    head, *entries = re.split(r"\n(?=\[\[)", catalog)
    for entry in entries:
        write(folder / "catalog", f"{head}\n{entry}\n".encode())
    quoted = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in sorted(words))
    (folder / "words.dict").write_text("".join(f'"{word}"\n' for word in quoted))


if __name__ == "__main__":
    main()
