-- Run once by an administrator; with passwords of your own.
CREATE DATABASE stockhold CHARACTER SET binary;
CREATE USER 'stockhold'@'%' IDENTIFIED BY 'CHANGE-ME';
GRANT ALL ON stockhold.* TO 'stockhold'@'%';
CREATE USER 'replication'@'%' IDENTIFIED BY 'CHANGE-ME-TOO' REQUIRE SSL;
GRANT REPLICATION SLAVE ON *.* TO 'replication'@'%';
