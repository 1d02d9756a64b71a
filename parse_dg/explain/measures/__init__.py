"""What pictures show, in numbers: places, collapse, consistency across domains, how much structure is used."""
