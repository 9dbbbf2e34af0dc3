"""Ablation studies: a grid of variants over seeds, its runs, and a report that says how sure it is."""
