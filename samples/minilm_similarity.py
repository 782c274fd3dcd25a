#!/usr/bin/env python3
"""Runs the converted sentence-embedding model with onnxruntime and prints how similar two sentences are (-1 to 1).

python samples/minilm_similarity.py minilm.onnx vocab.txt ["first sentence" "second sentence"]
"""

import sys
import unicodedata

import numpy as np
import onnxruntime

SENTENCES = ("The ferry leaves the harbour at nine.", "At nine o'clock the boat departs from the port.")


def is_symbol(character):
    """Punctuation in BERT's sense: any ASCII character that is neither letter, digit nor space, and Unicode's category
    P."""
    return (character.isascii() and not character.isalnum() and not character.isspace()) or unicodedata.category(
        character
    ).startswith("P")


def words(sentence):
    """Lower-cased words without accents; each punctuation mark is a word."""
    text = unicodedata.normalize("NFD", sentence.lower())
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")
    return "".join(f" {c} " if is_symbol(c) else c for c in text).split()


def pieces(word, vocabulary):
    """The longest vocabulary entries that make up `word`, left to right (WordPiece); [UNK] where there are none."""
    ids, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                ids.append(vocabulary[piece])
                start = end
                break
        else:
            return [vocabulary["[UNK]"]]
    return ids


def tokenize(sentences, vocabulary):
    """input_ids and attention_mask, int64[batch, length], padded to the longest sentence."""
    rows = []
    for sentence in sentences:
        inner = [token for word in words(sentence) for token in pieces(word, vocabulary)]
        rows.append([vocabulary["[CLS]"], *inner[:510], vocabulary["[SEP]"]])
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(ids)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
        mask[index, : len(row)] = 1
    return ids, mask


def main():
    if len(sys.argv) not in (3, 5):
        sys.exit(__doc__)
    model, vocabulary_file, *sentences = sys.argv[1:]
    sentences = sentences or SENTENCES
    with open(vocabulary_file, encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): index for index, line in enumerate(file)}
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    ids, mask = tokenize(sentences, vocabulary)
    embeddings = session.run(None, dict(zip(names, (ids, mask))))[1]
    for sentence in sentences:
        print(f"  {sentence}")
    print(f"  similarity {float(embeddings[0] @ embeddings[1]):.4f}")


if __name__ == "__main__":
    main()
