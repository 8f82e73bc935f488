"""Texts in: what a document is, how it is read and decoded, how a corpus is split and audited.

The only place where user files are opened.
"""

from whowrote.corpus.documents import Document as Document
from whowrote.corpus.documents import Note as Note
from whowrote.corpus.texts import Corpus as Corpus
from whowrote.corpus.texts import load as load
from whowrote.corpus.texts import stream as stream
