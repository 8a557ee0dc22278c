"""The commands, one file for each thing they are about: `moldau NOUN VERB`."""
