"""The run folder: one schema (`schema`), written by the commands (`write`) into a folder that appears whole or not at
all (`output`), and read by reports and later commands (`read`)."""
