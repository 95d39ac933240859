-- A history longer than 65,535 bytes, as of a reservation that is extended every second for hours, was refused, and the reservation
-- could not end any more. Copies the table, and can be run again.
ALTER TABLE stockhold_holds MODIFY history MEDIUMBLOB NOT NULL;
