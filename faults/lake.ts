import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { onCleanup } from '../test/cleanup.ts'
import { farFromMidnight } from '../test/midnight.ts'
import type { Fault } from './fault.ts'
import type { Round, RoundProcess } from './round.ts'

/**
 * kill -9 of the lake's writer around the steps that make a file visible, and of a merge at each step; EIO; and a full
 * disk.
 */
export const LAKE_FAULTS: Fault[] = [
  ...(
    [
      ['before link', 'before its file is there'],
      ['before metadata', 'before the snapshot that has its file'],
      ['after metadata', 'after the snapshot that has its file'],
    ] as const
  ).map(
    ([step, when]) =>
      ({
        name: `lake-${step.replace(' ', '-')}`,
        title: `kill -9 of the lake writer ${when}`,
        async run(round, orders) {
          await round.survive('email')
          await round.start('stream')
          const dying = await round.start('lake', { FAULT: step })
          await Promise.all([dying.ended, round.shop.trade(orders)])
          await round.start('lake')
          await round.shop.trade(3)
        },
      }) satisfies Fault,
  ),
  {
    name: 'lake-eio',
    title: 'fsync EIO on the lake (made in the process: EIO, and what was not written is gone)',
    async run(round, orders) {
      await round.survive('stream,email')
      await round.start('lake', { FAULT: 'fsync EIO', FAULT_AFTER: '4' })
      await round.shop.trade(orders)
    },
  },
  {
    name: 'lake-compact',
    title: 'kill -9 of lake maintain around a step, twice, beside the writer',
    run: (round, orders) => compactAndDie(round, orders, (step) => round.compact({ FAULT: step })),
  },
  {
    name: 'lake-disk-full',
    title: 'disk full under the lake (tmpfs)',
    async run(round, orders) {
      mkdirSync(round.lake, { recursive: true })
      const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', round.lake])
      if (mounted.status !== 0) throw new Skipped(`no tmpfs can be mounted here: ${mounted.stderr}`)
      onCleanup(round.cleanup, () => void spawnSync('umount', ['-l', round.lake]))
      const ballast = join(round.lake, 'ballast')
      try {
        writeFileSync(ballast, Buffer.alloc(2_000_000))
      } catch {
        // This write fills the disk.
      }
      await round.survive('email')
      await round.start('stream,lake')
      await round.shop.trade(orders)
      await pause(1_500 + round.random() * 1_000)
      rmSync(ballast)
    },
  },
]

const COMPACT_STEPS = ['before link', 'after link', 'before metadata', 'after metadata']

/** Merges while orders arrive. Dies at one step, and the second time at another. */
export async function compactAndDie(round: Round, orders: number, compact: (step: string) => RoundProcess): Promise<void> {
  await round.survive('stream,email,lake')
  const start = Math.floor(round.random() * COMPACT_STEPS.length)
  for (const index of [start, start + 1]) {
    const step = COMPACT_STEPS[index % COMPACT_STEPS.length] ?? ''
    // A merge needs at least two files of one day.
    await farFromMidnight()
    for (let file = 0; file < 2; file++) {
      await round.shop.trade(Math.ceil(orders / 4))
      await round.drain()
    }
    const dying = compact(step)
    await Promise.all([dying.ended, round.shop.trade(1)])
    if (dying.child.signalCode !== 'SIGKILL') throw new Error(`the merge was over before it died ${step}`)
  }
  await round.drain()
  await round.compact().ended
}

/** The fault cannot be produced on this machine. */
export class Skipped extends Error {}
