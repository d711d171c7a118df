import { writeFileSync } from 'node:fs'
import { BUDGET_PATH, findAbove, lower, measure, readBudget } from './budget.ts'

// Writes the sizes that have fallen into the budget (npm run budget).
const sizes = measure()
const budget = readBudget()
const above = findAbove(sizes, budget)
writeFileSync(BUDGET_PATH, `${JSON.stringify(lower(sizes, budget), null, 2)}\n`)
for (const line of above) console.log(line)
