"""Hashes, trees and encodings on which every other package rests; imports nothing of ours."""
