#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests prose.py: its complaints, and that wrapping fixes them and changes no word."""

import sys
import unittest

sys.dont_write_bytecode = True
import prose  # pylint: disable=wrong-import-position

LONG = ' '.join(['word'] * 30)


def said(text: str) -> list[str]:
    return [complaint for _, complaint in prose.complaints(text.split('\n'))]


class ProseTest(unittest.TestCase):
    def test_long_lines_and_paragraphs(self) -> None:
        self.assertIn('149 characters', said(LONG)[0])
        self.assertIn('101 words', said('word\n' * 101)[0])
        self.assertEqual(said('word\n' * 100 + '\n' + 'word\n' * 100), [])
        self.assertEqual(said('- word\n' * 200), [])

    def test_exceptions_to_the_width(self) -> None:
        for text in (f'| {LONG} |', f'# {LONG}', f'```\n{LONG}\n```', f'<!-- {LONG} -->',
                     f'- `{LONG}`', f'[{LONG}](page.md)', f'<!-- begin\n{LONG}\n-->'):
            self.assertEqual(said(text), [], text)

    def test_wrap(self) -> None:
        text = f'- {LONG} `{LONG}` 1. - {LONG}\n\n| {LONG} |'
        lines = prose.wrap(text.split('\n'))
        self.assertEqual(' '.join(lines).split(), text.split())
        self.assertEqual(said('\n'.join(lines)), [])
        self.assertTrue(all(not line or line.startswith(('- ', '  w', '  `', '|'))
                            for line in lines), lines)
        self.assertEqual(prose.wrap(lines), lines)


if __name__ == '__main__':
    unittest.main()
