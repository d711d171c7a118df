import type { AuthContext } from '../context.ts'
import type { Provider } from './provider.ts'

/** The dependencies of sign-ins with providers. */
export interface SignIns {
  auth: AuthContext
  providers: ReadonlyMap<string, Provider>
  /** Pages of these may begin a sign-in and get its code. */
  returnOrigins: ReadonlySet<string>
}
