package bash

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Strftime formats a time as strftime(3) does in the C locale, with GNU date's flags (%-d, %_d, %0d, %^a, %:z, %N, %s).
func Strftime(layout string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 >= len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		start := i
		i++
		flag, colons, width := byte(0), 0, 0
		for i < len(layout) && strings.IndexByte("-_0^#:", layout[i]) >= 0 {
			if layout[i] == ':' {
				colons++
			} else {
				flag = layout[i]
			}
			i++
		}
		for i < len(layout) && layout[i] >= '0' && layout[i] <= '9' {
			width = min(width*10+int(layout[i]-'0'), 1024)
			i++
		}
		if i < len(layout) && (layout[i] == 'E' || layout[i] == 'O') && i+1 < len(layout) {
			i++
		}
		if i >= len(layout) {
			b.WriteString(layout[start:])
			break
		}
		num := func(n, digits int) string {
			switch flag {
			case '-':
				return strconv.Itoa(n)
			case '_':
				return fmt.Sprintf("%*d", max(digits, width), n)
			}
			return fmt.Sprintf("%0*d", max(digits, width), n)
		}
		space := func(n, digits int) string {
			if flag == 0 {
				return fmt.Sprintf("%*d", max(digits, width), n)
			}
			return num(n, digits)
		}
		text := func(s string) string {
			if flag == '^' || flag == '#' {
				s = strings.ToUpper(s)
			}
			if width > len(s) {
				pad := " "
				if flag == '0' {
					pad = "0"
				}
				s = strings.Repeat(pad, width-len(s)) + s
			}
			return s
		}
		hour12 := (t.Hour()+11)%12 + 1
		isoYear, isoWeek := t.ISOWeek()
		switch layout[i] {
		case '%':
			b.WriteByte('%')
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'a':
			b.WriteString(text(t.Format("Mon")))
		case 'A':
			b.WriteString(text(t.Format("Monday")))
		case 'b', 'h':
			b.WriteString(text(t.Format("Jan")))
		case 'B':
			b.WriteString(text(t.Format("January")))
		case 'c':
			b.WriteString(text(t.Format("Mon Jan _2 15:04:05 2006")))
		case 'C':
			b.WriteString(num(t.Year()/100, 2))
		case 'd':
			b.WriteString(num(t.Day(), 2))
		case 'D', 'x':
			b.WriteString(t.Format("01/02/06"))
		case 'e':
			b.WriteString(space(t.Day(), 2))
		case 'F':
			b.WriteString(t.Format("2006-01-02"))
		case 'g':
			b.WriteString(num(isoYear%100, 2))
		case 'G':
			b.WriteString(num(isoYear, 4))
		case 'H':
			b.WriteString(num(t.Hour(), 2))
		case 'I':
			b.WriteString(num(hour12, 2))
		case 'j':
			b.WriteString(num(t.YearDay(), 3))
		case 'k':
			b.WriteString(space(t.Hour(), 2))
		case 'l':
			b.WriteString(space(hour12, 2))
		case 'm':
			b.WriteString(num(int(t.Month()), 2))
		case 'M':
			b.WriteString(num(t.Minute(), 2))
		case 'N':
			s := fmt.Sprintf("%09d", t.Nanosecond())
			if width > 0 && width < 9 {
				s = s[:width]
			}
			b.WriteString(s)
		case 'p':
			s := t.Format("PM")
			if flag == '#' {
				s = strings.ToLower(s)
			}
			b.WriteString(s)
		case 'P':
			b.WriteString(strings.ToLower(t.Format("PM")))
		case 'q':
			b.WriteString(num((int(t.Month())+2)/3, 1))
		case 'r':
			b.WriteString(t.Format("03:04:05 PM"))
		case 'R':
			b.WriteString(t.Format("15:04"))
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
		case 'S':
			b.WriteString(num(t.Second(), 2))
		case 'T', 'X':
			b.WriteString(t.Format("15:04:05"))
		case 'u':
			b.WriteString(num((int(t.Weekday())+6)%7+1, 1))
		case 'U':
			b.WriteString(num((t.YearDay()+6-int(t.Weekday()))/7, 2))
		case 'V':
			b.WriteString(num(isoWeek, 2))
		case 'w':
			b.WriteString(num(int(t.Weekday()), 1))
		case 'W':
			b.WriteString(num((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2))
		case 'y':
			b.WriteString(num(t.Year()%100, 2))
		case 'Y':
			b.WriteString(num(t.Year(), 1))
		case 'z':
			switch colons {
			case 1:
				b.WriteString(t.Format("-07:00"))
			case 2:
				b.WriteString(t.Format("-07:00:00"))
			default:
				b.WriteString(t.Format("-0700"))
			}
		case 'Z':
			b.WriteString(text(t.Format("MST")))
		default:
			b.WriteString(layout[start : i+1])
		}
	}
	return b.String()
}
