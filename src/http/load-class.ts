/**
 * The classes that an overloaded process refuses, in order: one only when everything of the previous ones is refused.
 */
export const SHED_CLASSES = ['search', 'lists', 'orders'] as const
export type ShedClass = (typeof SHED_CLASSES)[number]
/** `essential` is never refused: health, and the calls of operators. */
export type LoadClass = ShedClass | 'essential'
