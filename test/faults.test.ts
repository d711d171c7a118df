import { FAULTS } from '../faults/faults.ts'
import { DAILY_FAULTS, testRound } from './fault-round.ts'

// The others are in faults.long.test.ts.
for (const fault of FAULTS) if (DAILY_FAULTS.includes(fault.name)) testRound(fault)
