"""Whether a report is as its schema in schemas/ says, by the keywords that those schemas use."""

import json

from conftest import ROOT

TYPES = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def conform(value, name, schema=None, place="$"):
    """Asserts that `value` is as schemas/NAME.schema.json says."""
    root = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
    check(value, root if schema is None else schema, root, place)


def check(value, schema, root, place):
    if "$ref" in schema:
        return check(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, place)
    if "oneOf" in schema:
        problems = []
        for one in schema["oneOf"]:
            try:
                return check(value, one, root, place)
            except AssertionError as e:
                problems.append(str(e))
        raise AssertionError(f"{place}: {problems}")
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(type(value) in TYPES[t] for t in types), f"{place}: {value!r} is not of type {types}"
    assert "const" not in schema or value == schema["const"], place
    assert "enum" not in schema or value in schema["enum"], f"{place}: {value!r}"
    if isinstance(value, dict):
        assert set(schema.get("required", ())) <= set(value), f"{place}: {sorted(value)}"
        for key, item in value.items():
            part = schema.get("properties", {}).get(key, schema.get("additionalProperties", {}))
            assert part is not False, f"{place}: unknown key {key}"
            check(item, part, root, f"{place}.{key}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), root, f"{place}[{i}]")
