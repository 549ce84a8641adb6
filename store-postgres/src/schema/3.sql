-- What a run is about, in one short line; and the words of a command line to run in the place of an agent, as JSON.
ALTER TABLE ah.runs ADD COLUMN title text NOT NULL DEFAULT '', ADD COLUMN command text;
ALTER TABLE ah.schedules ADD COLUMN title text NOT NULL DEFAULT '', ADD COLUMN command text;
