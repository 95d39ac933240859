-- Run once by a superuser: psql -f create.sql. Then set its password: \password stockhold
CREATE ROLE stockhold LOGIN;
CREATE DATABASE stockhold OWNER stockhold ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0;
