"""What both sides share: records, kinds, schedules, errors. Standard library and numpy only."""
