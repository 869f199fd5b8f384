printf '#!/bin/sh\nread -r answer && echo "first: $answer" && read -r answer && echo "second: $answer"\n' > ask
chmod +x ask
printf 'one\ntwo\n' > block.txt

$ zc-yes | ./ask
printf 'first: y\nsecond: y\n' | cmp - "$out"

$ zc-yes n | ./ask
printf 'first: n\nsecond: n\n' | cmp - "$out"

$ zc-yes '' | ./ask
printf 'first: \nsecond: \n' | cmp - "$out"

$ zc-yes 'id;name;city' | head -n 1000 > rows.csv
test "$(sort rows.csv | uniq -c | tr -s ' ')" = ' 1000 id;name;city'

$ zc-yes | head -c 1M > ballast
test "$(stat -c %s ballast)" = 1048576

$ zc-yes -- --verbose | head -n 3
printf -- '--verbose\n--verbose\n--verbose\n' | cmp - "$out"

$ zc-yes "$(cat block.txt)" | head -n 6
cat block.txt block.txt block.txt | cmp - "$out"

$ zc-yes '' | head -n 5 | cat -n
test "$(tr -d ' \t' < "$out" | tr '\n' ' ')" = '1 2 3 4 5 '

$ zc-yes | zc-pv -f -S -s 1G > /dev/null
test $status = 0
grep -q '1.00GiB.*100%' "$err"

$ zc-yes --explain | head -n 1
grep -qx y "$out"
grep -qE 'tee|buffered' "$err"
