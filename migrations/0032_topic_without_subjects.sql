-- The messages of an order are found by their ids, `<order>.<version>`: an index of subjects only made publishing slower.
drop index topic_messages_subject_idx;
