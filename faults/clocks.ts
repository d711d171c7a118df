import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Cleanup, onCleanup } from '../test/cleanup.ts'
import { debianPostgresMissing, startDebianPostgres } from '../test/debian-postgres.ts'
import { eventually } from '../test/eventually.ts'
import type { Fault } from './fault.ts'
import { Skipped } from './lake.ts'
import { Round } from './round.ts'

const LIBRARIES = '/usr/lib'
const HOUR_SECONDS = 3_600
/** libfaketime rereads its file after this many whole seconds. A value of 1 could take up to two seconds. */
const CACHE_SECONDS = '0'
const NOTICED_MS = 1_500

/** Debian's libfaketime; undefined if it is not installed. */
function findLibrary(): string | undefined {
  const folders = existsSync(LIBRARIES) ? readdirSync(LIBRARIES) : []
  return folders.map((folder) => join(LIBRARIES, folder, 'faketime', 'libfaketime.so.1')).find((path) => existsSync(path))
}

function countDates(lake: string): number {
  const files = join(lake, 'orders')
  return existsSync(files) ? readdirSync(files).length : 0
}

/**
 * Makes a clock for processes started with `environment`. `stepTo` sets it ahead by seconds. The monotonic clock is
 * unaffected.
 */
function makeClock(folder: string): { environment: Record<string, string>; stepTo: (seconds: number) => void } {
  const library = findLibrary()
  if (library === undefined) throw new Skipped('libfaketime is not installed (Debian: apt-get install faketime)')
  const file = join(folder, 'clock')
  const stepTo = (seconds: number) => writeFileSync(file, `${seconds < 0 ? '' : '+'}${seconds}\n`)
  stepTo(0)
  const environment = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_CACHE_DURATION: CACHE_SECONDS,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  }
  return { environment, stepTo }
}

const databaseClocks = new WeakMap<Round, (seconds: number) => void>()

/** A database of Debian's PostgreSQL with its own clock. Throws Skipped. */
export async function openSteppedDatabase(cleanup: Cleanup): Promise<{ url: string; stepTo: (seconds: number) => void }> {
  if (debianPostgresMissing !== false) throw new Skipped(debianPostgresMissing)
  const folder = mkdtempSync(join(tmpdir(), 'storefront-clock-'))
  onCleanup(cleanup, () => rmSync(folder, { recursive: true, force: true }))
  // The server runs as another user, who must be able to enter the folder.
  chmodSync(folder, 0o755)
  const { environment, stepTo } = makeClock(folder)
  const server = await startDebianPostgres(cleanup, { fsync: 'off', wal_level: 'logical' }, environment)
  return { url: (await server.createDatabase('C.UTF-8')).url, stepTo }
}

async function openWithClock(cleanup: Cleanup, random: () => number): Promise<Round> {
  const { url, stepTo } = await openSteppedDatabase(cleanup)
  const round = await Round.open(cleanup, random, url)
  databaseClocks.set(round, stepTo)
  return round
}

/** Clocks that step forward and back, by days and by minutes: the clocks of the store's processes, or PostgreSQL's. */
export const CLOCK_FAULTS: Fault[] = [
  {
    name: 'clock-steps',
    title: 'the clock of stream, mails and lake stepped by up to 25 h, there and back (libfaketime)',
    async run(round, orders) {
      const { environment, stepTo } = makeClock(round.dataDir)
      await round.start('stream,email,lake', environment)
      const hours = 1 + Math.floor(round.random() * 25)
      const steps = [hours * HOUR_SECONDS, -hours * HOUR_SECONDS, -90, 25 * HOUR_SECONDS]
      for (const seconds of steps) {
        await round.shop.trade(Math.ceil(orders / (steps.length + 1)))
        stepTo(seconds)
        await pause(NOTICED_MS)
      }
      await round.shop.trade(Math.ceil(orders / (steps.length + 1)))
      // Events stored before the process notices the step are in today's files.
      const hasTomorrow = async () => {
        await round.shop.trade(1)
        return countDates(round.lake) > 1
      }
      await eventually(hasTomorrow, { what: "tomorrow's files of a clock that is ahead", pauseMs: 500, timeoutMs: 120_000 })
      stepTo(0)
      await pause(NOTICED_MS)
      await round.shop.trade(3)
    },
  },
  {
    name: 'database-clock-steps',
    title: "the clock of PostgreSQL stepped by up to 25 h, there and back (libfaketime, Debian's PostgreSQL)",
    // After a step forward, a worker seems to have missed its heartbeat.
    mayRepeatMails: true,
    open: openWithClock,
    async run(round, orders) {
      const stepTo = databaseClocks.get(round) ?? (() => {})
      await round.survive('stream,email,lake')
      const steps = [25 * HOUR_SECONDS, 0, -25 * HOUR_SECONDS, (1 + Math.floor(round.random() * 25)) * HOUR_SECONDS, 90, 0]
      for (const seconds of steps) {
        await round.shop.trade(Math.ceil(orders / steps.length))
        // The last mails of each time fail at their first attempt now, and are retried when the clock shows another
        // time.
        round.sink.fault = 'temporary refusal'
        await round.shop.trade(2)
        await pause(NOTICED_MS)
        stepTo(seconds)
        round.sink.fault = 'none'
        await eventually(async () => Math.abs((await readAheadSeconds(round)) - seconds) < 30, { what: 'the step of the clock' })
        await pause(NOTICED_MS)
      }
      await round.shop.trade(3)
    },
  },
]

async function readAheadSeconds({ pool }: Round): Promise<number> {
  const { rows } = await pool.query<{ seconds: number }>('select extract(epoch from clock_timestamp())::float8 as seconds')
  return (rows[0]?.seconds ?? 0) - Date.now() / 1_000
}
