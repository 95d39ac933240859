-- Events come compressed where that is worth it: to try once more would only cost time.
ALTER TABLE stockhold.events ALTER COLUMN body SET STORAGE EXTERNAL;
