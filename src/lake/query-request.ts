import type { QueryBounds } from './bounded-query.ts'
import type { LakePlace } from './open-lake-store.ts'

/** What the process of a query reads from its standard input, as one line of JSON. */
export interface QueryRequest {
  place: LakePlace
  text: string
  bounds: QueryBounds
}

/** Its exit status with a reason on standard output, which the operator may see. Others have theirs on standard error. */
export const EXIT_REFUSED = 3
