import { currenciesWithDigits } from '../currency.ts'
import { commaList, type Sql, sql } from '../db/sql.ts'

/** The number of decimals of this currency. */
export function exponentOf(currency: Sql): Sql {
  return sql`case
    when ${currency} in (${commaList(currenciesWithDigits(0))}) then 0 when ${currency} in (${commaList(currenciesWithDigits(3))}) then 3 else 2 end`
}
