"""Attention as evidence: what a captioner's maps are like, what they are worth to it, and whether they point."""

from captioning.inspection.inspection import Inspection, inspect
from captioning.inspection.subject import Subject, choose_images, prepare

__all__ = ["Inspection", "Subject", "choose_images", "inspect", "prepare"]
