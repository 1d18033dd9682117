-- Until when some node waits for messages of some queue, in seconds since 1970. Senders read it in place of the table
-- waiting, which costs them a tenth of their time. A sequence: it is written in place, outside of transactions.
create sequence penstock.waiting_until;
