// Package file is the driver that keeps objects in a folder, for `tidemark dev` and tests.
//
// URL: file:///path. An object is one file at its key below the folder. A Put writes a temporary file, syncs it, renames
// it and syncs the folders above, so that an object is there whole or not at all, also after a power cut. Temporary
// files live in .TMP, which no key can name since keys have no capitals; Open removes those over an hour old.
//
// Place in the house: below tiering; imports objstore only. Several processes may share the folder.
package file
