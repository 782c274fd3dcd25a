#!/usr/bin/env python3
"""A prompt -> text, token by token, by a library that slipway made of an exported decoder.

    python generate.py ./model.so FOLDER --prompt "Once upon a time" --tokens 200 --top-p 0.9

FOLDER has the tokenizer: transformers reads it where it is installed, otherwise the package tokenizers reads
tokenizer.json. The library says by its inputs and states which cache it keeps; all three ways of export.py run here.
"""

import argparse
import json
import pathlib
import sys
import time

import numpy as np
import slipway


class Tokenizer:
    """Text to tokens and back, and the tokens that end a text."""

    def __init__(self, folder):
        try:
            from transformers import AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(folder)
            self.encode = tokenizer.encode
            self.decode = lambda tokens: tokenizer.decode(tokens, skip_special_tokens=True)
        except ImportError:
            import tokenizers

            tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            self.encode = lambda text: tokenizer.encode(text).ids
            self.decode = tokenizer.decode
        self.ends = set()
        for name in ("generation_config.json", "config.json"):
            if (folder / name).exists():
                end = json.loads((folder / name).read_text()).get("eos_token_id")
                self.ends |= {end} if isinstance(end, int) else set(end or ())


class Decoder:
    """Logits of the next token, whatever cache the library keeps."""

    def __init__(self, path, threads=0):
        self.model = slipway.load(path, threads)
        self.by_position = len(self.model.inputs) == 2  # a static cache: where the new tokens are to be written
        self.tokens = []

    def __call__(self, new):
        at = len(self.tokens)
        self.tokens += new
        ids = np.array([new if self.model.states else self.tokens], np.int64)
        positions = (np.arange(at, at + len(new)),) if self.by_position else ()
        logits = self.model(ids, *positions)[0][0, -1]
        if logits.dtype == np.uint16:  # the bits of bfloat16, where numpy has no such type
            logits = (logits.astype(np.uint32) << 16).view(np.float32)
        return logits.astype(np.float32)


def pick(logits, top_p, temperature, rng):
    """The likeliest token; with `top_p` a random one of the likeliest that have this probability together."""
    if top_p is None:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")
    p = np.exp((logits[order] - logits[order[0]]) / temperature)
    p /= p.sum()
    kept = p[: int(np.searchsorted(np.cumsum(p), top_p)) + 1]  # at least one
    return int(rng.choice(order[: len(kept)], p=kept / kept.sum()))


def generate(decoder, prompt, count, choose):
    """Yields up to `count` tokens; times[0] is the prompt's seconds, the others are each one token's."""
    new = prompt
    for _ in range(count):
        begin = time.perf_counter()
        logits = decoder(new)
        seconds = time.perf_counter() - begin
        new = [choose(logits)]
        yield new[0], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--tokens", type=int, default=100, help="at most (%(default)s)")
    parser.add_argument("--top-p", type=float, help="sample; the likeliest token if not said")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--ids", action="store_true", help="print tokens' numbers in place of text")
    arguments = parser.parse_args()
    tokenizer, decoder = Tokenizer(arguments.folder), Decoder(arguments.model, arguments.threads)
    rng = np.random.default_rng(arguments.seed)
    prompt = tokenizer.encode(arguments.prompt)
    if not prompt:
        parser.error("the prompt has no tokens")
    tokens, times, shown = [], [], ""

    def choose(logits):
        return pick(logits, arguments.top_p, arguments.temperature, rng)

    for token, seconds in generate(decoder, prompt, arguments.tokens, choose):
        times.append(seconds)
        if token in tokenizer.ends:
            break
        tokens.append(token)
        # All of the answer again: what one token stands for depends on its neighbours, and may be half a character.
        text = f"{' '.join(map(str, tokens))} " if arguments.ids else tokenizer.decode(tokens)
        if not text.endswith("\ufffd") and text.startswith(shown):
            print(text[len(shown) :], end="", flush=True)
            shown = text
    print()
    rate = f"prefill {len(prompt)} tokens, {len(prompt) / times[0]:.1f} tokens/s" if times else "no tokens"
    rest = times[1:]
    rate += f"; decode {len(rest)} tokens, {len(rest) / sum(rest):.1f} tokens/s" if rest else ""
    print(rate, file=sys.stderr)


if __name__ == "__main__":
    main()
