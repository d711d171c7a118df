import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { onCleanup } from '../test/cleanup.ts'
import type { Fault } from './fault.ts'

/** kill -9 of the lake's writer around the step that makes a file appear, and a full disk. */
export const LAKE_FAULTS: Fault[] = [
  ...(['before rename', 'after rename'] as const).map(
    (step) =>
      ({
        name: `lake-${step.replace(' ', '-')}`,
        title: `kill -9 of the lake writer ${step}`,
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
        // It holds as much as fits.
      }
      await round.survive('email')
      await round.start('stream,lake')
      await round.shop.trade(orders)
      await pause(1_500 + round.random() * 1_000)
      rmSync(ballast)
    },
  },
]

/** A fault that cannot be made on this machine. */
export class Skipped extends Error {}
