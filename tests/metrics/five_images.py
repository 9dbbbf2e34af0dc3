"""A set that two processes cannot share evenly."""

REFERENCES = {
    "1": ["a cat on a mat"],
    "2": ["two dogs play in the snow", "dogs in snow"],
    "3": ["a red bus on a street"],
    "4": ["a man with a hat"],
    "5": ["a bowl of fruit on a table"],
}
CAPTIONS = {"1": "a cat", "2": "two dogs run in the snow", "3": "a bus", "4": "a hat", "5": "a bowl of soup"}
METRICS = ("BLEU-1", "BLEU-4", "ROUGE-L", "CIDEr-D")
