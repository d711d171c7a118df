import { BUCKET_FAULTS } from './bucket.ts'
import { CATALOGUE_FAULTS } from './catalogue.ts'
import { CLOCK_FAULTS } from './clocks.ts'
import { DAMAGED_LAKE_FAULT } from './damaged-lake.ts'
import { DATABASE_FAULTS } from './database.ts'
import { FAILOVER_FAULTS } from './failover.ts'
import type { Fault } from './fault.ts'
import { FULL_DISK_FAULT } from './full-disk.ts'
import { HANDLER_FAULTS } from './handler.ts'
import { LAKE_FAULTS } from './lake.ts'
import { PAUSED_OWNER_FAULT } from './leases.ts'
import { LOAD_FAULTS } from './load.ts'
import { LOCK_FAULTS } from './locks.ts'
import { LOST_SLOT_FAULTS } from './lost-slots.ts'
import { MAIL_FAULTS } from './mail.ts'
import { NATS_FAULTS } from './nats.ts'
import { RESTORE_FAULTS } from './restore.ts'
import { TABLE_FAULTS } from './table.ts'
import { HANGING_RECEIVER_FAULTS, WEBHOOK_FAULT } from './webhooks.ts'

export const FAULTS: Fault[] = [
  ...HANDLER_FAULTS,
  ...CATALOGUE_FAULTS,
  ...DATABASE_FAULTS,
  FULL_DISK_FAULT,
  ...LOST_SLOT_FAULTS,
  ...FAILOVER_FAULTS,
  ...LAKE_FAULTS,
  ...TABLE_FAULTS,
  DAMAGED_LAKE_FAULT,
  ...BUCKET_FAULTS,
  ...MAIL_FAULTS,
  WEBHOOK_FAULT,
  ...HANGING_RECEIVER_FAULTS,
  PAUSED_OWNER_FAULT,
  ...CLOCK_FAULTS,
  ...LOAD_FAULTS,
  ...LOCK_FAULTS,
  ...NATS_FAULTS,
  ...RESTORE_FAULTS,
]
