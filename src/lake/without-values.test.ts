import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutValues } from './without-values.ts'

test('values and comments are removed, in all their forms', () => {
  for (const [sql, shown] of [
    [`select * from orders where name = 'Ada''s' -- Bob\nand id > 4711`, `select * from orders where name = '…' and id > '…'`],
    [`select e'a\\'Ada', $$Ada$$, $q$Ada$q$, $é$Ada$é$, 12`, `select '…', '…', '…', '…', 12`],
    [`select 'x' as "'", 'Ada' as v`, `select '…' as "'", '…' as v`],
    [`select 1 /* Ada /* Bob */ Eve */ + 2`, `select 1 + 2`],
    [`select 'Ada`, `select '…'`],
  ])
    assert.equal(withoutValues(sql ?? ''), shown)
})

test('executed text is kept, even after text that only looks like a value or a comment', () => {
  for (const sql of [
    `select 1 as "--", * from orders limit 1`,
    `select 1 as "'", * from orders, (select 1 as "'") limit 1`,
    `select${' '.repeat(2_000)}* from orders limit 1`,
    `select 1 as a$b$, * from orders, (select 1 as c$b$)`,
    `select 1 as $1$, * from orders, (select 1 as $1$)`,
    `-- x\rselect * from orders`,
    `/* /* */ ' */ select * from orders where status = ''`,
    `select 1 as "/*", * from orders`,
  ])
    assert.match(withoutValues(sql), /\* from orders/, sql)
})
