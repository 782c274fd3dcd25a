#!/usr/bin/env python3
"""Writes what a release is made of as a CycloneDX 1.5 document (JSON): slipway, the files of the release with their
SHA-256, and every project whose code is in the program and the library, by name, version and package URL. These come
from the file of licences that the build writes (packaging/licences.py), which tests/cli/licences.sh compares with what
is linked and included.

    sbom.py OUTPUT --licences build/licences/copyright [FILE...]

The time is SOURCE_DATE_EPOCH's, where that is set, and the serial number follows from the content: the same release
gives the same document.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import urllib.parse
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPONENT = re.compile(r"^Files: (?P<name>[^\n/]+)/\*\nComment: (?P=name) (?P<version>\S+), (?P<source>[^\n]*)$", re.M)
UPSTREAM = {"onnx": "pkg:pypi/onnx@{}", "simdjson": "pkg:github/simdjson/simdjson@v{}"}  # not from Debian


def purl(name, version, source):
    if "Debian's source package" in source:
        return f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}?arch=source"
    if name in UPSTREAM:
        return UPSTREAM[name].format(version)
    sys.exit(f"{name}: no package URL for {source!r}")


def components(licences):
    found = []
    for m in COMPONENT.finditer(licences):
        name, version, source = m["name"], m["version"], m["source"]
        part = {
            "type": "library",
            "bom-ref": f"{name}@{version}",
            "name": name,
            "version": version,
            "description": source,
            "licenses": [{"license": {"name": f"as THIRD_PARTY_LICENSES says of {name}"}}],
            "purl": purl(name, version, source),
        }
        if homepage := re.search(r"\((https?://[^\s)]+)\)", source):
            part["externalReferences"] = [{"type": "website", "url": homepage[1]}]
        found.append(part)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--licences", type=pathlib.Path, required=True)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    options = parser.parse_intermixed_args()
    licences = options.licences.read_text(encoding="utf-8")
    parts = components(licences)
    stated = len(re.findall(r"^Files: (?!\*$)", licences, re.M))
    if not parts or len(parts) != stated:
        sys.exit(f"{options.licences} names {stated} projects, of which {len(parts)} have a version")
    version = (ROOT / "VERSION").read_text().strip()
    root = f"slipway@{version}"
    files = [
        {
            "type": "file",
            "bom-ref": f"file:{file.name}",
            "name": file.name,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}],
        }
        for file in sorted(options.files, key=lambda f: f.name)
    ]
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc) if seconds else None
    metadata = {
        "component": {
            "type": "application",
            "bom-ref": root,
            "name": "slipway",
            "version": version,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }
    }
    if time:
        metadata["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": metadata,
        "components": parts + files,
        "dependencies": [{"ref": root, "dependsOn": [part["bom-ref"] for part in parts]}]
        + [{"ref": part["bom-ref"]} for part in parts],
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid.uuid5(uuid.NAMESPACE_URL, content).urn
    options.output.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
