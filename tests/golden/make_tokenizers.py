#!/usr/bin/env python3
"""Makes tokenizers.json: small tokenizers of Hugging Face's library (pip install tokenizers) in the configurations of well-known
networks, and the numbers and texts that the library gives for some lines. Their texts have characters of Unicode 6 only, on which
all libraries agree.

    python3 tests/golden/make_tokenizers.py
"""
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXTS = [
    "The quick brown fox jumps over the lazy dog; the dog doesn't mind. They've SAID 'll and I'M.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Größe: 3,50 m, 12345 kg",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Ёж",
    "いろはにほへと ちりぬるを。漢字カナ交じり、日本語。 한국어 텍스트",
    "e\u0301 e\u0302\u0323 \u212b \ufb01n \u2460 \u00bd x\u00b2 \u0130stanbul naïve café",
    "أهلا وسهلا ١٢٣ שָׁלוֹם नमस्ते हिन्दी",
    "   leading,  double   and trailing   ",
    "line one\nline two\r\n\r\n\n  indented\tby tab\n\n\n",
    "\u00a0hard\u3000blank\u2028line\u200bzero\u200dwidth\u00adsoft",
    "snake_case CamelCase x=1;y[2]+=3.14e-10 #!/bin/sh https://a.b/c?d=e&f=%20 $5 ^~`|<>",
    "one<|endoftext|>two <mask> three  <s>four</s> [MASK] [CLS]x[SEP] world worlds",
    "\U0001f600\U0001f680 \U0001d54f \U00020000",
    "a" * 700 + "b" * 300,
    "▁under▁lined ▁ ▁▁ <0x41>",
    " ",
    "\n",
]
# Samples of two texts, in sequences of LENGTH tokens.
LENGTH = 24
PAIRS = [
    ("The quick brown fox", "jumps over the lazy dog."),
    ("the dog doesn't mind", "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich, und das ist lang genug."),
    ("Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich, und das ist lang genug.", "x"),
    ("aaaaaaaaaaaa bbbbbbbbbbbbbbbb cccccccccccccccc dddddddddddddddddd", "The lazy dog; the quick brown fox and the lazy dog and x"),
]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def train(model, trainer, size, normalizer=None, pre=None, decoder=None, post=None, special=(), **options):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre:
        tokenizer.pre_tokenizer = pre
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.train_from_iterator(TEXTS * 3, trainer(vocab_size=size, special_tokens=list(special), show_progress=False, **options))
    if post:
        tokenizer.post_processor = post(tokenizer)
    return tokenizer


def byte_level(pre, **options):
    return train(models.BPE(**options.pop("model", {})), trainers.BpeTrainer, 330, pre=pre, decoder=decoders.ByteLevel(),
                 special=options.pop("special", ["<|endoftext|>"]), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                 **options)


def split(expression):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(expression), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def template(first, last):
    return lambda tokenizer: processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(t, tokenizer.token_to_id(t)) for t in (first, last)])


def make():
    made = {}
    made["gpt2"] = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    made["llama3"] = byte_level(split(LLAMA3), model={"ignore_merges": True})
    made["qwen2"] = byte_level(split(QWEN2), normalizer=normalizers.NFC())
    made["roberta"] = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), special=["<s>", "<pad>", "</s>", "<unk>"])
    made["roberta"].add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    made["roberta"].post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    metaspace = train(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainers.BpeTrainer, 420,
                      pre=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace(), limit_alphabet=90,
                      special=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    made["metaspace"] = metaspace
    llama2 = json.loads(metaspace.to_str())
    llama2["added_tokens"] = llama2["added_tokens"][:3]
    llama2["pre_tokenizer"] = None
    llama2["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    llama2["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    made["llama2"] = Tokenizer.from_str(json.dumps(llama2))
    made["bert"] = train(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer, 300,
                         normalizer=normalizers.BertNormalizer(), pre=pre_tokenizers.BertPreTokenizer(), limit_alphabet=100,
                         decoder=decoders.WordPiece(), post=template("[CLS]", "[SEP]"),
                         special=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    made["words"] = train(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), trainers.BpeTrainer, 200,
                          normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                                           normalizers.Strip()]),
                          pre=pre_tokenizers.Whitespace(), special=["<unk>"], limit_alphabet=60,
                          continuing_subword_prefix="##", decoder=decoders.WordPiece())
    made["suffix"] = train(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainers.BpeTrainer, 200,
                           normalizer=normalizers.NFKC(), decoder=decoders.BPEDecoder(), special=["<unk>"], limit_alphabet=60,
                           pre=pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(True),
                                                        pre_tokenizers.Punctuation("merged_with_previous")]),
                           end_of_word_suffix="</w>")
    made["pieces"] = byte_level(pre_tokenizers.Sequence([
        pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Digits(False), pre_tokenizers.CharDelimiterSplit("e"),
        pre_tokenizers.Split(Regex(r"\w+"), "contiguous", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    made["pieces"].add_tokens([AddedToken("world", single_word=True), AddedToken("quick", lstrip=True, rstrip=True,
                                                                                 normalized=False), AddedToken("qui")])
    return made


def padded(tokenizer, padding):
    """What two texts become, the first alone and both, cut and filled up."""
    tokenizer = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH, pad_id=tokenizer.token_to_id(padding), pad_token=padding)
    encoded = [[tokenizer.encode(a), tokenizer.encode(a, b)] for a, b in PAIRS]
    return [[{"ids": e.ids, "mask": e.attention_mask, "types": e.type_ids} for e in pair] for pair in encoded]


def old_merges(document):
    """Merges in the form of older files, "a b", for some of the tokenizers."""
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]


def main():
    out = []
    for name, tokenizer in make().items():
        encoded = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        document = json.loads(tokenizer.to_str())
        if name in ("gpt2", "llama2", "words"):
            old_merges(document)
        out.append({"name": name, "file": document, "ids": [e.ids for e in encoded],
                    "decoded": [tokenizer.decode(e.ids) for e in encoded]})
        padding = {"bert": "[PAD]", "roberta": "<pad>", "llama3": "<|endoftext|>"}.get(name)
        if padding:
            out[-1]["padded"] = padded(tokenizer, padding)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizers.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"texts": TEXTS, "pairs": PAIRS, "tokenizers": out}, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
