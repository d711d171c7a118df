import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../test/eventually.ts'
import type { Fault } from './fault.ts'
import { Skipped } from './lake.ts'

const LIBRARIES = '/usr/lib'
const HOUR_SECONDS = 3_600
/** libfaketime reads its file again after this many whole seconds; 1 could take up to two seconds. */
const CACHE_SECONDS = '0'
const NOTICED_MS = 1_500

/** Debian's libfaketime, undefined where it is not installed. */
function findLibrary(): string | undefined {
  const folders = existsSync(LIBRARIES) ? readdirSync(LIBRARIES) : []
  return folders.map((folder) => join(LIBRARIES, folder, 'faketime', 'libfaketime.so.1')).find((path) => existsSync(path))
}

function countDates(lake: string): number {
  const files = join(lake, 'orders')
  return existsSync(files) ? readdirSync(files).length : 0
}

/** Clocks of processes that step forward and back, by days and by minutes. The monotonic clock is unaffected. */
export const CLOCK_FAULT: Fault = {
  name: 'clock-steps',
  title: 'the clock of stream, mails and lake stepped by up to 25 h, there and back (libfaketime)',
  async run(round, orders) {
    const library = findLibrary()
    if (library === undefined) throw new Skipped('libfaketime is not installed (Debian: apt-get install faketime)')
    const file = join(round.dataDir, 'clock')
    const stepTo = (seconds: number) => writeFileSync(file, `${seconds < 0 ? '' : '+'}${seconds}\n`)
    stepTo(0)
    await round.start('stream,email,lake', {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: CACHE_SECONDS,
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    })
    const hours = 1 + Math.floor(round.random() * 25)
    const steps = [hours * HOUR_SECONDS, -hours * HOUR_SECONDS, -90, 25 * HOUR_SECONDS]
    for (const seconds of steps) {
      await round.shop.trade(Math.ceil(orders / (steps.length + 1)))
      stepTo(seconds)
      await pause(NOTICED_MS)
    }
    await round.shop.trade(Math.ceil(orders / (steps.length + 1)))
    // Events from before the step was noticed are in today's files.
    const hasTomorrow = async () => {
      await round.shop.trade(1)
      return countDates(round.lake) > 1
    }
    await eventually(hasTomorrow, { what: "tomorrow's files of a clock that is ahead", pauseMs: 500, timeoutMs: 120_000 })
    stepTo(0)
    await pause(NOTICED_MS)
    await round.shop.trade(3)
  },
}
