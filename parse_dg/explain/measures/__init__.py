"""What pictures show, in numbers: places, parts, collapse, consistency across domains, use of structure."""
