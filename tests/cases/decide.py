#!/usr/bin/env python3
"""Asks the reference decider: one JSON object a line in, one out.
usage: decide.py CATALOG.toml < requests > answers

A request has `argv` or `line`. An element of `argv` that is not UTF-8 is a list of its bytes.
An answer has `verdict`, `template`, `code` and `executed`, and for a line its `words`."""
import json
import sys

sys.dont_write_bytecode = True
import policy_check


def element(given):
    return given if isinstance(given, str) else bytes(given).decode("utf-8", "surrogateescape")


def answer(catalog, request):
    words = None
    try:
        if "line" in request:
            argv = words = policy_check.split_line(request["line"], catalog.pol)
        else:
            argv = [element(given) for given in request["argv"]]
        verdict, template, executed = catalog.decide(argv)
        code = None
    except policy_check.No as refusal:
        verdict, template, code, executed = policy_check.REFUSE, None, refusal.code, None
    told = {"verdict": verdict, "template": template, "code": code, "executed": executed}
    return told | ({"words": words} if "line" in request else {})


def main():
    catalog = policy_check.Catalog(policy_check.catalog_text(sys.argv[1]))
    for row in sys.stdin:
        print(json.dumps(answer(catalog, json.loads(row))))


if __name__ == "__main__":
    main()
