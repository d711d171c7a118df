import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestDatabase } from '../../test/database.ts'
import { collectLog } from '../../test/logs.ts'
import { assertClock, type HousekeepingTask, runDueTasks } from './housekeeping.ts'

const MINUTE_MS = 60_000

const collect = () => collectLog<{ level: number; msg: string; task?: string; deleted?: number }>()

test('runs each task at its own minutes, and logs the numbers of deleted rows', async () => {
  const { entries: logged, logger } = collect()
  const runs: string[] = []
  const task = (name: string, everyMinutes: number, deleted: number): HousekeepingTask => {
    const run = async () => {
      runs.push(name)
      return { [name]: deleted }
    }
    return { name, everyMinutes, run }
  }
  const tasks = [task('each minute', 1, 0), task('each tenth', 10, 3)]
  const lastPeriods = new Map()
  for (let minute = 0; minute < 20; minute++) await runDueTasks(tasks, new Date(minute * MINUTE_MS + 59_999), logger, lastPeriods)
  assert.equal(runs.filter((name) => name === 'each minute').length, 20)
  assert.equal(runs.filter((name) => name === 'each tenth').length, 2)
  assert.deepEqual(
    logged.map(({ msg }) => msg),
    ['housekeeping', 'housekeeping'],
  )
})

test("a task runs in each of its periods, even if no round begins in the period's first minute, and again after an outage", async () => {
  const { logger } = collect()
  const minutes: number[] = []
  let [minute, isAway] = [0, false]
  const tasks: HousekeepingTask[] = [
    {
      name: 'each tenth',
      everyMinutes: 10,
      async run() {
        if (isAway) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
        minutes.push(minute)
        return {}
      },
    },
  ]
  const lastPeriods = new Map()
  const round = () => runDueTasks(tasks, new Date(minute * MINUTE_MS), logger, lastPeriods)
  for (minute = 1; minute < 31; minute += 2) await round()
  assert.deepEqual(minutes, [1, 11, 21])
  isAway = true
  await assert.rejects(round())
  isAway = false
  minute++
  await round()
  assert.deepEqual(minutes, [1, 11, 21, 32])
})

test('logs a failed task and runs the others; a database outage ends the run', async () => {
  const { entries: logged, logger } = collect()
  let deleted = 0
  const fail = (error: Error): HousekeepingTask => ({ name: 'broken', everyMinutes: 1, run: () => Promise.reject(error) })
  const others: HousekeepingTask = { name: 'others', everyMinutes: 1, run: async () => ({ deleted: ++deleted }) }
  await runDueTasks([fail(new Error('a broken row')), others], new Date(0), logger)
  assert.deepEqual(
    logged.map(({ level, task, deleted }) => ({ level, task, deleted })),
    [
      { level: 50, task: 'broken', deleted: undefined },
      { level: 30, task: undefined, deleted: 1 },
    ],
  )
  const outage = Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
  await assert.rejects(runDueTasks([fail(outage), others], new Date(0), logger), outage)
  assert.equal(deleted, 1)
})

test('deletes nothing by a clock that differs from the database by more than five minutes', async (t) => {
  const { pool } = await createTestDatabase(t)
  const assertDiffering = (minutes: number) => assertClock({ pool, now: () => new Date(Date.now() + minutes * MINUTE_MS) })
  for (const minutes of [-4, 0, 4]) await assertDiffering(minutes)
  for (const minutes of [-6, 6, 43_200])
    await assert.rejects(assertDiffering(minutes), /^Error: the clocks of this process and of the database differ by \d+ s: set/)
})
